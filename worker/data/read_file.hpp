#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::data {

/// The bytes of a regular file. not_found: there is none. invalid: it is no regular file, is empty, or has more than
/// `bytes_max`, in which case nothing is read. io: it cannot be read.
[[nodiscard]] Result<std::vector<std::uint8_t>> read_file(const std::filesystem::path& path, std::int64_t bytes_max);

/// A regular file that is read in parts, by pread: if it were mapped, a file that becomes shorter while the job runs
/// would kill the rank with SIGBUS. The page cache keeps it in memory all the same. Any thread may read.
class RandomAccessFile {
 public:
  /// not_found: there is no such file; the message ends with `advice`. invalid: it is no regular file. io.
  [[nodiscard]] static Result<RandomAccessFile> open(const std::filesystem::path& path, std::string_view advice);

  /// Its size when it was opened.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Fills `into` with the bytes from `offset` on. io: they cannot be read, or the file ends before.
  [[nodiscard]] Result<void> read(std::int64_t offset, std::span<std::byte> into) const;

 private:
  RandomAccessFile(std::filesystem::path path, FileDescriptor file, std::int64_t bytes)
      : path_{std::move(path)}, file_{std::move(file)}, bytes_{bytes} {}

  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t bytes_;
};

}  // namespace trainyard::data
