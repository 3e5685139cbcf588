#include "storage/open_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/check.hpp"
#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::storage::posix {
namespace {

constexpr mode_t private_file = 0600;
constexpr mode_t private_folder = 0700;

std::string path_in(const OpenFolder& folder, std::string_view name) {
  return fmt::format("{}/{}", folder.path, name);
}

bool is_link(const OpenFolder& folder, const std::string& name) {
  struct stat status {};
  return ::fstatat(folder.descriptor.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

// The error that errno means after a call on `name` that does not follow links.
tl::unexpected<Error> failed_in(std::string_view what, const OpenFolder& folder, const std::string& name) {
  const int error_number = errno;
  const std::string path = path_in(folder, name);
  if ((error_number == ELOOP || error_number == ENOTDIR) && is_link(folder, name)) {
    return fail(ErrorKind::invalid,
                fmt::format("{} {}: it is a symbolic link, and none is followed below a store's own folder: put the "
                            "files themselves there, or name the link's target as the store's folder",
                            what, path));
  }
  return tl::unexpected(error_of(error_number, fmt::format("{} {}", what, path)));
}

// Sets `mode`, from which the umask may have removed bits. A folder keeps its set-group-id bit.
Result<void> set_mode(const FileDescriptor& made, mode_t mode, const OpenFolder& folder, const std::string& name) {
  struct stat status {};
  if (::fstat(made.get(), &status) != 0 || ::fchmod(made.get(), mode | (status.st_mode & S_ISGID)) != 0)
    return failed_in("setting the permissions of", folder, name);
  return {};
}

tl::unexpected<Error> is_there(const OpenFolder& folder, const std::string& name) {
  return fail(ErrorKind::already_exists, fmt::format("{} is already there", path_in(folder, name)));
}

}  // namespace

Result<OpenFolder> open_folder(const std::string& path) {
  OpenFolder folder{FileDescriptor{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)}, path};
  if (!folder.descriptor) return tl::unexpected(error_of(errno, fmt::format("opening the folder {}", path)));
  return folder;
}

Result<OpenFolder> open_folder_in(const OpenFolder& parent, const std::string& name) {
  constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  OpenFolder folder{FileDescriptor{::openat(parent.descriptor.get(), name.c_str(), flags)}, path_in(parent, name)};
  if (!folder.descriptor) return failed_in("opening the folder", parent, name);
  return folder;
}

Result<OpenFolder> make_folder(const std::string& path, mode_t mode) {
  const std::size_t slash = path.rfind('/');
  check(slash != std::string::npos, "a folder to be made has an absolute path");
  const std::string above = slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  auto parent = open_folder(above);
  if (!parent && parent.error().kind == ErrorKind::not_found && above != "/") parent = make_folder(above, mode);
  TRY(parent);
  const auto made = TRY(make_folder_in(*parent, name, mode));
  if (made) {
    TRY(sync_folder(*parent));
  }
  return open_folder_in(*parent, name);
}

Result<bool> make_folder_in(const OpenFolder& parent, const std::string& name, mode_t mode) {
  if (::mkdirat(parent.descriptor.get(), name.c_str(), mode) != 0) {
    if (errno == EEXIST) return false;
    return failed_in("making the folder", parent, name);
  }
  if (mode == private_folder) return true;
  const FileDescriptor made{
      ::openat(parent.descriptor.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!made) return failed_in("opening the folder", parent, name);
  return set_mode(made, mode, parent, name).map([] { return true; });
}

bool remove_folder_in(const OpenFolder& parent, const std::string& name) {
  return ::unlinkat(parent.descriptor.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

Result<std::vector<FolderEntry>> entries_of(const OpenFolder& folder,
                                            const std::function<bool(const std::string&)>& is_wanted) {
  const auto failed = [&] { return tl::unexpected(error_of(errno, fmt::format("listing {}", folder.path))); };
  FileDescriptor readable{::openat(folder.descriptor.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!readable) return failed();
  const std::unique_ptr<DIR, int (*)(DIR*)> stream{::fdopendir(readable.get()), &::closedir};
  if (!stream) return failed();
  static_cast<void>(readable.release());
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return failed();
    if (entry == nullptr) return entries;
    const std::string name{static_cast<const char*>(entry->d_name)};
    if (name == "." || name == ".." || !is_wanted(name)) continue;
    unsigned char type = entry->d_type;
    if (type == DT_UNKNOWN) {  // Some file systems do not give the type here.
      struct stat status {};
      if (::fstatat(folder.descriptor.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
        type = static_cast<unsigned char>(IFTODT(status.st_mode));
      else if (errno != ENOENT)
        return failed_in("looking at", folder, name);
    }
    if (type == DT_DIR || type == DT_REG) entries.push_back({.name = name, .is_folder = type == DT_DIR});
  }
}

Result<void> sync_folder(const OpenFolder& folder) {
  const FileDescriptor readable{::openat(folder.descriptor.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!readable) return tl::unexpected(error_of(errno, fmt::format("opening the folder {}", folder.path)));
  // Some network file systems answer EINVAL, since their server makes names durable itself.
  if (::fsync(readable.get()) != 0 && errno != EINVAL)
    return tl::unexpected(error_of(errno, fmt::format("syncing the folder {}", folder.path)));
  return {};
}

Result<FileDescriptor> create_file_in(const OpenFolder& folder, const std::string& name, mode_t mode) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor file{::openat(folder.descriptor.get(), name.c_str(), flags, mode)};
  if (!file) return failed_in("creating", folder, name);
  if (mode != private_file) {
    if (auto set = set_mode(file, mode, folder, name); !set) {
      ::unlinkat(folder.descriptor.get(), name.c_str(), 0);
      return tl::unexpected(set.error());
    }
  }
  return file;
}

Result<void> set_mode_in(const OpenFolder& folder, const std::string& name, mode_t mode) {
  return open_file_in(folder, name).and_then([&](const FileDescriptor& file) {
    return set_mode(file, mode, folder, name);
  });
}

Result<FileDescriptor> open_file_in(const OpenFolder& folder, const std::string& name) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileDescriptor file{::openat(folder.descriptor.get(), name.c_str(), flags)};
  if (!file) return failed_in("opening", folder, name);
  return file_bytes(file, path_in(folder, name)).map([&](std::uint64_t) { return std::move(file); });
}

Result<std::uint64_t> file_bytes_in(const OpenFolder& folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder.descriptor.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return failed_in("looking at", folder, name);
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::not_found, fmt::format("{} is no file", path_in(folder, name)));
  return static_cast<std::uint64_t>(status.st_size);
}

Result<void> remove_file_in(const OpenFolder& folder, const std::string& name) {
  if (::unlinkat(folder.descriptor.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return failed_in("removing", folder, name);
  return {};
}

Result<void> replace_in(const OpenFolder& folder, const std::string& from, const std::string& to) {
  const int in = folder.descriptor.get();
  if (::renameat(in, from.c_str(), in, to.c_str()) != 0) return failed_in("renaming a temporary file to", folder, to);
  return {};
}

Result<void> publish_in(const OpenFolder& folder, const std::string& from, const std::string& to) {
  const int in = folder.descriptor.get();
  if (::linkat(in, from.c_str(), in, to.c_str(), 0) == 0) {
    // The object has its name. A temporary name that stays is hidden and harmless.
    ::unlinkat(in, from.c_str(), 0);
    return {};
  }
  if (errno == EEXIST) return is_there(folder, to);
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
    return failed_in("linking", folder, to);
  // No hard links here (FAT, some FUSE mounts).
  if (::renameat2(in, from.c_str(), in, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return is_there(folder, to);
  return failed_in("this file system offers neither hard links nor an exclusive rename, one of which is needed for",
                   folder, to);
}

}  // namespace trainyard::storage::posix
