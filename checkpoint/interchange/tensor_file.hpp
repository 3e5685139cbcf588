#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/interchange/dtype.hpp"
#include "checkpoint/interchange/mapped_file.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A tensor of a file that others wrote, as it lies there, row-major.
struct ForeignTensor {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;  ///< Of the file, or of what was made of it.
};

/// Memory for tensors whose bytes do not lie in their file as they are needed.
using TensorBuffers = std::deque<std::vector<std::byte>>;

/// All tensors of a safetensors file that lies in memory, in its order. ErrorKind::corrupt, invalid.
[[nodiscard]] Result<std::vector<ForeignTensor>> read_safetensors(std::span<std::byte> file);

/// All tensors of the dict that torch.save has written to a file that lies in memory, in the dict's order. Nothing of
/// it is ever executed. What is packed, or is a view that is not contiguous, goes into `buffers`; a file whose tensors
/// would be many times its own size is refused. ErrorKind::corrupt, invalid.
[[nodiscard]] Result<std::vector<ForeignTensor>> read_torch(std::span<std::byte> file, TensorBuffers& buffers);

/// A file of tensors that others wrote, open for reading.
class TensorFile {
 public:
  /// Whether `path` has an ending that says a format that is read here.
  [[nodiscard]] static bool is_known(std::string_view path);
  /// By its ending: .safetensors, else as torch.save writes it. Errors name the file.
  [[nodiscard]] static Result<TensorFile> open(const std::string& path);

  [[nodiscard]] const std::vector<ForeignTensor>& tensors() const { return tensors_; }

 private:
  TensorFile(MappedFile file, TensorBuffers buffers, std::vector<ForeignTensor> tensors)
      : file_(std::move(file)), buffers_(std::move(buffers)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  TensorBuffers buffers_;
  std::vector<ForeignTensor> tensors_;
};

}  // namespace trainyard::checkpoint
