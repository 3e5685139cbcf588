#include "worker/data/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/file_descriptor.hpp"

namespace trainyard::data {

Result<std::vector<std::uint8_t>> read_file(const std::filesystem::path& path, std::int64_t bytes_max) {
  // O_NONBLOCK: the opening of a pipe would wait for its writer.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat state {};
  if (!file || ::fstat(file.get(), &state) != 0) {
    return fail(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io,
                fmt::format("{} cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(state.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is not a file", path.string()));
  if (state.st_size == 0) return fail(ErrorKind::invalid, fmt::format("{} is empty", path.string()));
  if (state.st_size > bytes_max) {
    return fail(ErrorKind::invalid, fmt::format("{} has {} bytes; at most {} are read", path.string(),
                                                static_cast<std::int64_t>(state.st_size), bytes_max));
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(state.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorKind::io, fmt::format("{} cannot be read: {}", path.string(), std::strerror(errno)));
    if (got == 0) {
      return fail(ErrorKind::io,
                  fmt::format("{} ended after {} of {} bytes while it was read", path.string(), done, bytes.size()));
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

Result<RandomAccessFile> RandomAccessFile::open(const std::filesystem::path& path, std::string_view advice) {
  // O_NONBLOCK: the opening of a pipe would wait for its writer.
  FileDescriptor opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat state {};
  if (!opened || ::fstat(opened.get(), &state) != 0) {
    if (errno == ENOENT)
      return fail(ErrorKind::not_found, fmt::format("there is no file {}; {}", path.string(), advice));
    return fail(ErrorKind::io, fmt::format("{} cannot be opened: {}", path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(state.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is not a file", path.string()));
  return RandomAccessFile{path, std::move(opened), state.st_size};
}

Result<void> RandomAccessFile::read(std::int64_t offset, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const std::int64_t place = offset + static_cast<std::int64_t>(done);
    const ssize_t got = ::pread(file_.get(), into.data() + done, into.size() - done, place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorKind::io, fmt::format("{} cannot be read: {}", path_.string(), std::strerror(errno)));
    if (got == 0) {
      return fail(ErrorKind::io,
                  fmt::format("{} ends at byte {}; it had {} bytes when it was opened", path_.string(), place, bytes_));
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace trainyard::data
