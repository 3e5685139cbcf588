#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// Folders that are held open, so that no symbolic link can redirect a name in them, not even one that replaces a
/// folder meanwhile. Any thread may call. Errors as in storage/posix.hpp; a link in the place of a folder or file is
/// `invalid`.
namespace trainyard::storage::posix {

struct OpenFolder {
  FileDescriptor descriptor;  ///< Enough to name what is in it, not to read it.
  std::string path;           ///< For messages.
};

/// Permission bits of new files and folders.
struct Modes {
  mode_t file = 0600;
  mode_t folder = 0700;
};

struct FolderEntry {
  std::string name;
  bool is_folder = false;  ///< False: a file. Links and special files are no entries.
};

/// The folder at `path`, which may be a link.
[[nodiscard]] Result<OpenFolder> open_folder(const std::string& path);
[[nodiscard]] Result<OpenFolder> open_folder_in(const OpenFolder& parent, const std::string& name);
/// Makes the folder at `path`, which is absolute, and its missing parents. The umask does not change `mode`. The last
/// part of `path` may not be a link.
[[nodiscard]] Result<OpenFolder> make_folder(const std::string& path, mode_t mode);
/// True when the folder is new, false when something of that name existed. The umask does not change `mode`.
[[nodiscard]] Result<bool> make_folder_in(const OpenFolder& parent, const std::string& name, mode_t mode);
/// Removes the folder `name`; false when it is not empty or no folder.
[[nodiscard]] bool remove_folder_in(const OpenFolder& parent, const std::string& name);
/// The files and folders in `folder` whose names `is_wanted` accepts, in no order.
[[nodiscard]] Result<std::vector<FolderEntry>> entries_of(const OpenFolder& folder,
                                                          const std::function<bool(const std::string&)>& is_wanted);
/// Makes the names in `folder` durable.
[[nodiscard]] Result<void> sync_folder(const OpenFolder& folder);

/// A new file; already_exists when something of that name exists. The umask does not change `mode`.
[[nodiscard]] Result<FileDescriptor> create_file_in(const OpenFolder& folder, const std::string& name, mode_t mode);
/// Gives the file the permission bits `mode`.
[[nodiscard]] Result<void> set_mode_in(const OpenFolder& folder, const std::string& name, mode_t mode);
/// Opens the file for reading; `invalid` when `name` is no file.
[[nodiscard]] Result<FileDescriptor> open_file_in(const OpenFolder& folder, const std::string& name);
/// The file's length; not_found also when `name` is no file.
[[nodiscard]] Result<std::uint64_t> file_bytes_in(const OpenFolder& folder, const std::string& name);
/// Removes the file, or a link itself. Success also when there is none.
[[nodiscard]] Result<void> remove_file_in(const OpenFolder& folder, const std::string& name);
/// Renames `from` to `to`, and replaces a file of that name.
[[nodiscard]] Result<void> replace_in(const OpenFolder& folder, const std::string& from, const std::string& to);
/// Renames `from` to `to`; already_exists when something of that name exists. Atomic, also over NFS.
[[nodiscard]] Result<void> publish_in(const OpenFolder& folder, const std::string& from, const std::string& to);

}  // namespace trainyard::storage::posix
