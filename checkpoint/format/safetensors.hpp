#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

struct SafetensorsTensor {
  std::string name;   ///< Unique in its file, not "__metadata__".
  std::string dtype;  ///< "F32", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// The bytes of one element of `dtype`; nothing for a name that the format does not know.
[[nodiscard]] std::optional<std::uint64_t> safetensors_element_bytes(std::string_view dtype);

/// The beginning of a safetensors file that holds `tensors` in this order, without gaps: 8 bytes of length and the JSON
/// header, padded with spaces so that the first tensor lies at a multiple of 8. The tensors' bytes follow it. Source:
/// https://huggingface.co/docs/safetensors (format).
[[nodiscard]] std::string safetensors_header(std::span<const SafetensorsTensor> tensors,
                                             const std::map<std::string, std::string>& metadata);

}  // namespace trainyard::checkpoint
