#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/interchange/tensor_type.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A file of this machine, mapped into memory: bytes that are not accessed are not read. Changes of the bytes stay in
/// memory. As with any mapping, access to a part that somebody has cut off the file kills the process.
class MappedFile {
 public:
  /// ErrorKind::invalid for an empty file, or a path that is no file; else the system's error.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_{std::exchange(other.bytes_, {})} {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_{bytes} {}

  std::span<std::byte> bytes_;
};

/// A tensor of another program's file, row-major.
struct ForeignTensor {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;  ///< In the mapped file, or in a TensorBuffers.
};

/// Memory for tensors whose bytes in the file are packed or not contiguous.
using TensorBuffers = std::deque<std::vector<std::byte>>;

/// All tensors of a safetensors file in memory, in the file's order. ErrorKind::corrupt, invalid.
[[nodiscard]] Result<std::vector<ForeignTensor>> read_safetensors(std::span<std::byte> file);

/// All tensors of a dict that torch.save has written, in the dict's order. Executes nothing of the file. Packed
/// tensors, and views that are not contiguous, go into `buffers`; a file whose tensors would be many times its size is
/// an error. ErrorKind::corrupt, invalid.
[[nodiscard]] Result<std::vector<ForeignTensor>> read_torch(std::span<std::byte> file, TensorBuffers& buffers);

/// Another program's file of tensors, open for reading.
class TensorFile {
 public:
  /// True when the ending of `path` names a format that open() reads.
  [[nodiscard]] static bool is_known(std::string_view path);
  /// Reads .safetensors as safetensors, and any other ending as torch.save's format. Errors name the file.
  [[nodiscard]] static Result<TensorFile> open(const std::string& path);

  [[nodiscard]] const std::vector<ForeignTensor>& tensors() const { return tensors_; }

 private:
  TensorFile(MappedFile file, TensorBuffers buffers, std::vector<ForeignTensor> tensors)
      : file_{std::move(file)}, buffers_{std::move(buffers)}, tensors_{std::move(tensors)} {}

  MappedFile file_;
  TensorBuffers buffers_;
  std::vector<ForeignTensor> tensors_;
};

}  // namespace trainyard::checkpoint
