#include "tests/fakes/file_calls.hpp"

#include <fcntl.h>
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

FileFate fate_of(const FileCall& call) {
  return decision() ? decision()(call) : FileFate{};
}

// The call itself, unless its fate is another.
template <typename Call>
int do_or_not(std::string_view name, const Call& call) {
  const FileFate fate = fate_of({.name = name, .bytes = 0});
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

extern "C" ssize_t writev(int file, const iovec* vectors, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += vectors[i].iov_len;
  const FileFate fate = trainyard::fakes::fate_of({.name = "writev", .bytes = bytes});
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
  return do_or_not("fsync", [&] { return ::syscall(SYS_fsync, file); });
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  return do_or_not("mkdir", [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}

extern "C" int rmdir(const char* path) noexcept {
  return do_or_not("rmdir", [&] { return ::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); });
}

extern "C" int unlink(const char* path) noexcept {
  return do_or_not("unlink", [&] { return ::syscall(SYS_unlinkat, AT_FDCWD, path, 0); });
}

extern "C" int rename(const char* from, const char* to) noexcept {
  return do_or_not("rename", [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); });
}

extern "C" int link(const char* from, const char* to) noexcept {
  return do_or_not("link", [&] { return ::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
