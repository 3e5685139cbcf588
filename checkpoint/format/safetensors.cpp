#include "checkpoint/format/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

namespace trainyard::checkpoint {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

struct Dtype {
  std::string_view name;
  std::uint64_t element_bytes;
};

constexpr std::array dtypes = {Dtype{"F64", 8},     Dtype{"F32", 4},     Dtype{"F16", 2}, Dtype{"BF16", 2},
                               Dtype{"F8_E5M2", 1}, Dtype{"F8_E4M3", 1}, Dtype{"I64", 8}, Dtype{"I32", 4},
                               Dtype{"I16", 2},     Dtype{"I8", 1},      Dtype{"U64", 8}, Dtype{"U32", 4},
                               Dtype{"U16", 2},     Dtype{"U8", 1},      Dtype{"BOOL", 1}};

}  // namespace

std::optional<std::uint64_t> safetensors_element_bytes(std::string_view dtype) {
  const auto* found =
      std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& known) { return known.name == dtype; });
  return found == dtypes.end() ? std::nullopt : std::optional{found->element_bytes};
}

std::string safetensors_header(std::span<const SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  std::uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t header_bytes = text.size();
  std::string file_start(sizeof header_bytes, '\0');
  std::memcpy(file_start.data(), &header_bytes, sizeof header_bytes);
  return file_start + text;
}

}  // namespace trainyard::checkpoint
