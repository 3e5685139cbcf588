#include "worker/data/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace trainyard::data
