#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A file of this machine as memory: what nobody looks at is never read. What is written to the bytes stays in memory.
/// As with any mapping, the process dies if somebody cuts the file off meanwhile and it then looks there.
class MappedFile {
 public:
  /// ErrorKind::invalid for what is no file, or an empty one; else as the system says.
  [[nodiscard]] static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes_;
};

}  // namespace trainyard::checkpoint
