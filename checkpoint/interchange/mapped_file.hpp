#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

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

}  // namespace trainyard::checkpoint
