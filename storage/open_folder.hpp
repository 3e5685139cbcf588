#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

/// Folders that are held open, so that no symbolic link decides where a name in them leads: neither one that is there
/// nor one that takes a folder's place meanwhile. Any thread may call. Errors as in storage/posix.hpp; a link where a
/// folder or a file should be is `invalid`.
namespace trainyard::storage::posix {

struct OpenFolder {
  FileDescriptor descriptor;  ///< Enough to name what is in it, not to read it.
  std::string path;           ///< For messages.
};

/// Who may read and write what is made.
struct Modes {
  mode_t file = 0600;
  mode_t folder = 0700;
};

struct FolderEntry {
  std::string name;
  bool is_folder = false;  ///< False: a file. Links and whatever else there may be are no entries.
};

/// The folder at `path`, which may be a link.
[[nodiscard]] Result<OpenFolder> open_folder(const std::string& path);
[[nodiscard]] Result<OpenFolder> open_folder_in(const OpenFolder& parent, const std::string& name);
/// True when the folder is new, false when something of that name was there. The mode holds whatever the umask.
[[nodiscard]] Result<bool> make_folder_in(const OpenFolder& parent, const std::string& name, mode_t mode);
/// Removes the folder `name`; false when it is not empty, or is none.
[[nodiscard]] bool remove_folder_in(const OpenFolder& parent, const std::string& name);
/// The files and folders in the folder now whose names `is_wanted` accepts, in no order.
[[nodiscard]] Result<std::vector<FolderEntry>> entries_of(const OpenFolder& folder,
                                                          const std::function<bool(const std::string&)>& is_wanted);
/// Makes durable which names are in the folder.
[[nodiscard]] Result<void> sync_folder(const OpenFolder& folder);

/// A new file; already_exists when there is one. The mode holds whatever the umask.
[[nodiscard]] Result<FileDescriptor> create_file_in(const OpenFolder& folder, const std::string& name, mode_t mode);
/// Gives the file the permission bits `mode`.
[[nodiscard]] Result<void> set_mode_in(const OpenFolder& folder, const std::string& name, mode_t mode);
/// Opens the file for reading; `invalid` for what is no file.
[[nodiscard]] Result<FileDescriptor> open_file_in(const OpenFolder& folder, const std::string& name);
/// The file's length; not_found also for what is no file.
[[nodiscard]] Result<std::uint64_t> file_bytes_in(const OpenFolder& folder, const std::string& name);
/// Success also when there is none. Of a link the link itself is removed.
[[nodiscard]] Result<void> remove_file_in(const OpenFolder& folder, const std::string& name);
/// Gives `from` the name `to`, whatever was there before.
[[nodiscard]] Result<void> replace_in(const OpenFolder& folder, const std::string& from, const std::string& to);
/// Gives `from` the name `to`; already_exists when there is something of that name. Atomic, also over NFS.
[[nodiscard]] Result<void> publish_in(const OpenFolder& folder, const std::string& from, const std::string& to);

}  // namespace trainyard::storage::posix
