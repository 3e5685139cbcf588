#include "checkpoint/interchange/safetensors_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/interchange/tensor_type.hpp"
#include "common/text.hpp"

namespace trainyard::checkpoint {
namespace {

// The limit of safetensors' own library.
constexpr std::uint64_t header_bytes_max = 100'000'000;

tl::unexpected<Error> no_safetensors(std::string_view why) {
  return fail(ErrorKind::corrupt, fmt::format("it is no safetensors file, or damaged: {}", why));
}

// As many as a model with a thousand layers of a thousand experts has. Bounds the memory that a hostile header can
// take.
constexpr std::size_t tensors_max = 1'000'000;
constexpr std::size_t shown_name_bytes_max = 200;

std::string shown(std::string_view name) {
  return keep_beginning(name, shown_name_bytes_max);
}

// Parses the header without building a JSON tree, so that only the tensors take memory. nlohmann's SAX interface names
// the methods; each returns true to read on.
class HeaderReader {
 public:
  bool key(std::string& name) {
    if (depth_ == 1) {
      is_metadata_ = name == "__metadata__";
      found_ = {};
      found_.name = std::move(name);
    } else if (depth_ == 2) {
      field_ = name == "dtype"          ? Field::dtype
               : name == "shape"        ? Field::shape
               : name == "data_offsets" ? Field::offsets
                                        : Field::other;
    }
    return true;
  }
  bool start_object(std::size_t /*size*/) {
    ++depth_;
    if (depth_ == 2) field_ = Field::other;
    return depth_ <= 2 || is_ignored() || contradicts();
  }
  bool end_object() {
    --depth_;
    return depth_ != 1 || is_metadata_ || take_entry();
  }
  bool start_array(std::size_t /*size*/) {
    const bool is_list = depth_ == 2 && (field_ == Field::shape || field_ == Field::offsets);
    ++depth_;
    if (depth_ == 1) return refuse(no_safetensors("its header is no JSON object").value());
    if (depth_ == 2 && !is_metadata_) return contradicts();
    if (is_list && !is_ignored()) {
      (field_ == Field::shape ? found_.has_shape : found_.has_offsets) = true;
      return true;
    }
    return is_ignored() || contradicts();
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool string(std::string& text) {
    if (depth_ == 2 && field_ == Field::dtype && !is_metadata_) {
      found_.dtype = std::move(text);
      return true;
    }
    return take_other();
  }
  bool number_unsigned(std::uint64_t number) {
    if (depth_ != 3 || is_ignored()) return take_other();
    std::vector<std::int64_t>& counts = field_ == Field::shape ? found_.shape : found_.offsets;
    if (number > INT64_MAX || counts.size() == dimensions_max) return contradicts();
    counts.push_back(static_cast<std::int64_t>(number));
    return true;
  }
  bool null() { return take_other(); }
  bool boolean(bool /*value*/) { return take_other(); }
  bool number_integer(std::int64_t /*value*/) { return take_other(); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return take_other(); }
  bool binary(nlohmann::json::binary_t& /*bytes*/) { return take_other(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) {
    return refuse(no_safetensors("its header is no JSON object").value());
  }

  std::vector<SafetensorsEntry> entries;
  std::optional<Error> error;

 private:
  enum class Field { dtype, shape, offsets, other };
  struct Found {
    std::string name;
    std::optional<std::string> dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> offsets;
    bool has_shape = false;
    bool has_offsets = false;
  };

  [[nodiscard]] bool is_ignored() const { return is_metadata_ || (depth_ >= 2 && field_ == Field::other); }
  bool refuse(Error why) {
    if (!error) error = std::move(why);
    return false;
  }
  bool contradicts() {
    return refuse(
        no_safetensors(fmt::format("its header describes no valid tensor for {}", shown(found_.name))).value());
  }
  // Handles a value that is not one of a tensor's fields.
  bool take_other() {
    if (depth_ == 0) return refuse(no_safetensors("its header is no JSON object").value());
    return is_ignored() || contradicts();
  }
  bool take_entry() {
    if (!found_.dtype || !found_.has_shape || found_.offsets.size() != 2 || found_.offsets[0] > found_.offsets[1])
      return contradicts();
    const auto dtype = find_safetensors_dtype(*found_.dtype);
    if (!dtype) {
      return refuse({.kind = ErrorKind::invalid,
                     .message = fmt::format("{} is of type {}, which is not known here", shown(found_.name),
                                            shown(*found_.dtype)),
                     .retry_after = {}});
    }
    SafetensorsEntry entry{.name = std::move(found_.name),
                           .dtype = *dtype,
                           .shape = std::move(found_.shape),
                           .offset = static_cast<std::uint64_t>(found_.offsets[0]),
                           .bytes = static_cast<std::uint64_t>(found_.offsets[1] - found_.offsets[0])};
    if (byte_count(entry.shape, dtype->element_bytes) != entry.bytes) {
      found_.name = std::move(entry.name);
      return contradicts();
    }
    if (entries.size() == tensors_max) {
      return refuse({.kind = ErrorKind::invalid,
                     .message = fmt::format("it has more than {} tensors: split it", tensors_max),
                     .retry_after = {}});
    }
    entries.push_back(std::move(entry));
    return true;
  }

  int depth_ = 0;  // The nesting of objects and arrays.
  bool is_metadata_ = false;
  Field field_ = Field::other;  // The current field of the tensor, whose object is at depth 2.
  Found found_;
};

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
  HeaderReader reader;
  const bool is_read = nlohmann::json::sax_parse(header, &reader);
  if (reader.error) return tl::unexpected(*reader.error);
  if (!is_read) return no_safetensors("its header is no JSON object");
  std::vector<SafetensorsEntry>& entries = reader.entries;
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second) return no_safetensors(fmt::format("it names {} twice", shown(entry.name)));
  }
  names.clear();
  std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair{a.offset, a.bytes} < std::pair{b.offset, b.bytes};
  });
  std::uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.offset != end)
      return no_safetensors(fmt::format("{} does not begin where the tensor before it ends", shown(entry.name)));
    end += entry.bytes;
    entry.offset += safetensors_length_bytes + header.size();
  }
  return std::move(entries);
}

}  // namespace trainyard::checkpoint
