#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/dtype.hpp"
#include "common/result.hpp"

/// Reading of safetensors files that others wrote. Source: https://huggingface.co/docs/safetensors (format).
namespace trainyard::checkpoint {

/// How the files are named.
inline constexpr std::string_view safetensors_ending = ".safetensors";

/// The file begins with a number of this many bytes, which is that of the header behind it.
inline constexpr std::uint64_t safetensors_length_bytes = 8;

struct SafetensorsEntry {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< From the file's beginning.
  std::uint64_t bytes = 0;
};

/// The length of the header, by the file's first safetensors_length_bytes. ErrorKind::corrupt for one that no such file
/// has.
[[nodiscard]] Result<std::uint64_t> read_safetensors_length(std::string_view file_start);

/// All tensors of a file with this header, in the order of their bytes, which follow each other without gaps.
/// ErrorKind::corrupt for a header that contradicts itself, invalid for a type that is not known here.
[[nodiscard]] Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header);

}  // namespace trainyard::checkpoint
