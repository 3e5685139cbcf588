#include "tests/fakes/file_calls.hpp"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace trainyard::fakes {
namespace {

using Kind = FileFate::Kind;

std::function<FileFate(const FileCall&)>& decision() {
  static std::function<FileFate(const FileCall&)> decide;
  return decide;
}

// The path of the file that an open descriptor refers to.
std::string path_of(int file) {
  std::string path(PATH_MAX, '\0');
  const ssize_t bytes = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
  path.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  return path;
}

std::string path_in(int folder, const char* path) {
  return folder == AT_FDCWD || *path == '/' ? path : path_of(folder) + "/" + path;
}

// Calls `path` only when a test has set a decision.
template <typename Path>
FileFate fate_of(std::string_view name, std::size_t bytes, const Path& path) {
  return decision() ? decision()({.name = name, .bytes = bytes, .path = path()}) : FileFate{};
}

// Makes the call, unless the test decides otherwise.
template <typename Path, typename Call>
int do_or_not(std::string_view name, const Path& path, const Call& call) {
  const FileFate fate = fate_of(name, 0, path);
  if (fate.kind == Kind::kill) ::kill(::getpid(), SIGKILL);
  if (fate.kind == Kind::skip) return 0;
  if (fate.kind == Kind::fail) {
    errno = fate.error_number;
    return -1;
  }
  return static_cast<int>(call());
}

}  // namespace

void decide_file_calls(std::function<FileFate(const FileCall&)> decide) {
  decision() = std::move(decide);
}

}  // namespace trainyard::fakes

using trainyard::fakes::do_or_not;
using trainyard::fakes::FileFate;
using trainyard::fakes::path_in;
using trainyard::fakes::path_of;

extern "C" ssize_t writev(int file, const iovec* vectors, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += vectors[i].iov_len;
  const FileFate fate = trainyard::fakes::fate_of("writev", bytes, [&] { return path_of(file); });
  if (fate.kind == FileFate::Kind::kill) {
    std::size_t left = fate.bytes;
    for (int i = 0; i < count && left > 0; ++i) {
      const std::size_t part = std::min(left, vectors[i].iov_len);
      ::syscall(SYS_write, file, vectors[i].iov_base, part);
      left -= part;
    }
    ::kill(::getpid(), SIGKILL);
  }
  if (fate.kind == FileFate::Kind::skip) return static_cast<ssize_t>(bytes);
  if (fate.kind == FileFate::Kind::fail) {
    errno = fate.error_number;
    return -1;
  }
  return ::syscall(SYS_writev, file, vectors, count);
}

extern "C" int fsync(int file) {
  return do_or_not(
      "fsync", [&] { return path_of(file); }, [&] { return ::syscall(SYS_fsync, file); });
}

extern "C" int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return do_or_not(
      "mkdir", [&] { return path_in(folder, path); }, [&] { return ::syscall(SYS_mkdirat, folder, path, mode); });
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  return ::mkdirat(AT_FDCWD, path, mode);
}

extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  return do_or_not((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", [&] { return path_in(folder, path); },
                   [&] { return ::syscall(SYS_unlinkat, folder, path, flags); });
}

extern "C" int rmdir(const char* path) noexcept {
  return ::unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

extern "C" int unlink(const char* path) noexcept {
  return ::unlinkat(AT_FDCWD, path, 0);
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return do_or_not(
      "rename", [&] { return path_in(to_folder, to); },
      [&] { return ::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0); });
}

extern "C" int rename(const char* from, const char* to) noexcept {
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

extern "C" int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return do_or_not(
      "link", [&] { return path_in(to_folder, to); },
      [&] { return ::syscall(SYS_linkat, from_folder, from, to_folder, to, flags); });
}

extern "C" int link(const char* from, const char* to) noexcept {
  return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

extern "C" int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  return do_or_not(
      "fstatat", [&] { return path_in(folder, path); },
      [&] { return ::syscall(SYS_newfstatat, folder, path, status, flags); });
}
