#include "storage/posix.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "common/try.hpp"

namespace trainyard::storage::posix {
namespace {

constexpr std::size_t vectors_per_write = 64;
constexpr std::size_t bytes_per_write = std::size_t{64} << 20;

ErrorKind kind_of(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorKind::forbidden;
    case ENOENT:
      return ErrorKind::not_found;
    case EEXIST:
      return ErrorKind::already_exists;
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
      return ErrorKind::invalid;
    case ESTALE:
    case ETIMEDOUT:
      return ErrorKind::unavailable;
    default:
      return ErrorKind::io;
  }
}

std::string_view advice_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return ". Free space there, or keep fewer checkpoints";
    case EDQUOT:
      return ". Raise the quota, or keep fewer checkpoints";
    case EACCES:
    case EPERM:
      return ". Let the user that this process runs as write there, or choose another folder";
    case EROFS:
      return ". Choose a folder on a writable volume";
    case ENOTDIR:
      return ". A part of the path is a file: choose another folder";
    default:
      return "";
  }
}

tl::unexpected<Error> failed(std::string_view what, std::string_view path) {
  const int error_number = errno;
  return tl::unexpected(error_of(error_number, fmt::format("{} {}", what, path)));
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Error error_of(int error_number, std::string_view doing) {
  return {.kind = kind_of(error_number),
          .message =
              fmt::format("{}: {}{}", doing, std::generic_category().message(error_number), advice_for(error_number)),
          .retry_after = {}};
}

Result<std::vector<std::string>> make_directories(const std::string& folder) {
  std::vector<std::string> changed;
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) return changed;
    if (errno != ENOENT || folder == "/") return failed("making the folder", folder);
    changed = TRY(make_directories(parent_of(folder)));
    if (::mkdir(folder.c_str(), 0777) != 0) {
      if (errno == EEXIST) return changed;
      return failed("making the folder", folder);
    }
  }
  changed.push_back(parent_of(folder));
  return changed;
}

Result<void> sync_directory(const std::string& folder) {
  const FileDescriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory) return failed("opening the folder", folder);
  // Some network file systems answer EINVAL, since their server makes names durable itself.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) return failed("syncing the folder", folder);
  return {};
}

Result<FileDescriptor> create_file(const std::string& path) {
  FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (!file) return failed("creating", path);
  return file;
}

Result<FileDescriptor> open_for_reading(const std::string& path) {
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return failed("opening", path);
  return file;
}

Result<std::uint64_t> file_bytes(const FileDescriptor& file, std::string_view path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed("looking at", path);
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is not a file", path));
  return static_cast<std::uint64_t>(status.st_size);
}

Result<void> write_durably(const FileDescriptor& file, std::span<const std::span<const std::byte>> pieces,
                           std::string_view path) {
  std::size_t piece = 0;
  std::size_t done_in_piece = 0;
  off_t offset = 0;
  while (piece < pieces.size()) {
    std::array<iovec, vectors_per_write> vectors{};
    std::size_t vector_count = 0;
    std::size_t batch_bytes = 0;
    for (std::size_t i = piece; i < pieces.size() && vector_count < vectors.size() && batch_bytes < bytes_per_write;
         ++i) {
      const auto rest = pieces[i].subspan(i == piece ? done_in_piece : 0);
      const std::size_t bytes = std::min(rest.size(), bytes_per_write - batch_bytes);
      // writev() takes no pointer to const, and does not write through it.
      vectors[vector_count++] = {.iov_base = const_cast<std::byte*>(rest.data()), .iov_len = bytes};
      batch_bytes += bytes;
    }
    const ssize_t written = ::writev(file.get(), vectors.data(), static_cast<int>(vector_count));
    if (written < 0) {
      if (errno == EINTR) continue;
      return failed("writing", path);
    }
    // Asks the disk to begin now, and not only at fsync(). Errors are ignored here, since fsync() reports them.
    ::sync_file_range(file.get(), offset, written, SYNC_FILE_RANGE_WRITE);
    offset += written;
    done_in_piece += static_cast<std::size_t>(written);
    while (piece < pieces.size() && done_in_piece >= pieces[piece].size()) done_in_piece -= pieces[piece++].size();
  }
  if (::fsync(file.get()) != 0) return failed("syncing", path);
  return {};
}

Result<void> read_at(const FileDescriptor& file, std::uint64_t offset, std::span<std::byte> into,
                     std::string_view path) {
  while (!into.empty()) {
    const ssize_t got =
        ::pread(file.get(), into.data(), std::min(into.size(), bytes_per_write), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return failed("reading", path);
    }
    if (got == 0) {
      return fail(ErrorKind::corrupt,
                  fmt::format("reading {}: it ends at byte {}, {} bytes too early", path, offset, into.size()));
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> replace(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("renaming a temporary file to", to);
  return {};
}

Result<void> publish(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    // The object has its name. A temporary name that stays is hidden and harmless.
    ::unlink(from.c_str());
    return {};
  }
  if (errno == EEXIST) return fail(ErrorKind::already_exists, fmt::format("{} is already there", to));
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) return failed("linking", to);
  // No hard links here (FAT, some FUSE mounts).
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return fail(ErrorKind::already_exists, fmt::format("{} is already there", to));
  return failed("this file system offers neither hard links nor an exclusive rename, one of which is needed for", to);
}

}  // namespace trainyard::storage::posix
