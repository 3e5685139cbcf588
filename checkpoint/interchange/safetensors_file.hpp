#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/tensor_type.hpp"
#include "common/result.hpp"

/// Reads the headers of safetensors files. Source: https://huggingface.co/docs/safetensors (format).
namespace trainyard::checkpoint {

/// The ending of the files' names.
inline constexpr std::string_view safetensors_ending = ".safetensors";

/// The size of the number at the file's beginning, which is the header's length.
inline constexpr std::uint64_t safetensors_length_bytes = 8;

struct SafetensorsEntry {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< From the file's beginning.
  std::uint64_t bytes = 0;
};

/// The header's length, from the file's first safetensors_length_bytes. ErrorKind::corrupt for a length that is out of
/// range.
[[nodiscard]] Result<std::uint64_t> read_safetensors_length(std::string_view file_start);

/// The tensors of a file with this header, in the order of their bytes, which have no gaps. ErrorKind::corrupt for a
/// header that contradicts itself, invalid for an unknown type.
[[nodiscard]] Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header);

}  // namespace trainyard::checkpoint
