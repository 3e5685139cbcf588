#include "worker/checkpoint/interchange/safetensors_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "worker/checkpoint/interchange/shape.hpp"

namespace trainyard::checkpoint {
namespace {

// As the format's own library has it.
constexpr std::uint64_t header_bytes_max = 100'000'000;

tl::unexpected<Error> no_safetensors(std::string_view why) {
  return fail(ErrorKind::corrupt, fmt::format("it is no safetensors file, or damaged: {}", why));
}

// All of `list` as whole numbers that are not negative.
bool read_counts(const nlohmann::json& list, std::vector<std::int64_t>& counts) {
  if (!list.is_array()) return false;
  for (const nlohmann::json& count : list) {
    if (!count.is_number_unsigned() || count.get<std::uint64_t>() > INT64_MAX) return false;
    counts.push_back(count.get<std::int64_t>());
  }
  return true;
}

Result<SafetensorsEntry> read_safetensors_entry(const std::string& name, const nlohmann::json& object) {
  const auto contradicts = [&] { return no_safetensors(fmt::format("what its header says of {} is no tensor", name)); };
  if (!object.is_object() || !object.contains("dtype") || !object["dtype"].is_string() || !object.contains("shape") ||
      !object.contains("data_offsets"))
    return contradicts();
  const auto dtype = find_safetensors_dtype(object["dtype"].get<std::string>());
  if (!dtype) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is of type {}, which is not known here", name, object["dtype"].get<std::string>()));
  }
  SafetensorsEntry entry{.name = name, .dtype = *dtype, .shape = {}};
  std::vector<std::int64_t> offsets;
  if (!read_counts(object["shape"], entry.shape) || !read_counts(object["data_offsets"], offsets) ||
      offsets.size() != 2 || offsets[0] > offsets[1])
    return contradicts();
  entry.offset = static_cast<std::uint64_t>(offsets[0]);
  entry.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  if (byte_count(entry.shape, dtype->element_bytes) != entry.bytes) return contradicts();
  return entry;
}

}  // namespace

Result<std::uint64_t> read_safetensors_length(std::string_view file_start) {
  std::uint64_t length = 0;
  if (file_start.size() < sizeof length) return no_safetensors("it is shorter than a header");
  std::memcpy(&length, file_start.data(), sizeof length);
  if (length < 2 || length > header_bytes_max)
    return no_safetensors(fmt::format("it begins with a header of {} bytes", length));
  return length;
}

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header) {
  const nlohmann::json object = nlohmann::json::parse(header, nullptr, false);
  if (!object.is_object()) return no_safetensors("its header is no JSON object");
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__") continue;
    auto entry = read_safetensors_entry(name, value);
    if (!entry) return tl::unexpected(entry.error());
    entries.push_back(std::move(*entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair{a.offset, a.bytes} < std::pair{b.offset, b.bytes};
  });
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.offset != end)
      return no_safetensors(fmt::format("{} does not begin where the tensor before it ends", entry.name));
    end += entry.bytes;
    entry.offset += safetensors_length_bytes + header.size();
  }
  return entries;
}

}  // namespace trainyard::checkpoint
