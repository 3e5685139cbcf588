#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "storage/environment.hpp"
#include "storage/file_system.hpp"
#include "storage/open_folder.hpp"
#include "storage/store.hpp"

namespace trainyard::storage {

struct FileStoreOptions {
  posix::Modes modes;  ///< Permissions of the files and folders that the store makes.
  /// True when the store's own folder may be a symbolic link. No link below it is followed.
  bool may_be_link = true;
};

/// The permissions from TRAINYARD_FILE_MODE, the permission bits of new files in octal; 0600 when it is not set.
/// Folders get the same bits, and execute permission wherever there is read permission. ErrorKind::invalid for any
/// other text, and for bits that lock the owner out or make files executable.
[[nodiscard]] Result<posix::Modes> file_modes(const Environment& environment);

/// Objects as files under one folder, which is made when the first one is put. An object is written to a hidden
/// temporary file, synced, and then renamed (or linked, for a conditional create), and its folder synced: after a crash
/// or a power loss it is there whole or not at all. Several processes may share the folder, over NFS too. Symbolic
/// links below it are neither objects nor folders: they are not listed, and a key that leads through one is `invalid`.
class FileStore final : public Store {
 public:
  /// `folder`: absolute.
  explicit FileStore(std::string folder, FileStoreOptions options = {});
  /// For tests: asks `file_system` for the kind of the file system, instead of the operating system.
  FileStore(std::string folder, FileSystemOf file_system);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key, const std::stop_token& stop = {}) override;
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  /// False on a network file system, from which each machine fetches the bytes for itself.
  [[nodiscard]] bool is_cached_on_node() const override;
  /// One call waits for the disk while the bytes of the other call are verified. More calls would make a disk seek.
  [[nodiscard]] std::size_t concurrency() const override { return 2; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

  /// The path of the object's file, whether it exists or not.
  [[nodiscard]] std::string path_of(std::string_view key) const;
  /// A hidden path beside path_of(key), in whose folder the caller writes the object before take_in(). Makes the
  /// folder.
  [[nodiscard]] Result<std::string> temporary_path(std::string_view key) const;
  /// Makes the file at `temporary`, which is a temporary_path() of `key`, the object `key`.
  [[nodiscard]] Result<void> take_in(const std::string& temporary, std::string_view key) const;

 private:
  /// The store's own folder and those below it that lead to `key`, each open; `name` is the key's last part.
  struct Way {
    std::vector<posix::OpenFolder> folders;
    std::vector<std::string> names;  ///< The name of each folder in `folders` except the first.
    std::string name;
    [[nodiscard]] const posix::OpenFolder& last() const { return folders.back(); }
  };
  [[nodiscard]] Result<posix::OpenFolder> open_root() const;
  [[nodiscard]] Result<posix::OpenFolder> make_root() const;
  /// A Way that holds only `root`, the store's own folder.
  [[nodiscard]] static Result<Way> begin_way(Result<posix::OpenFolder> root, std::string_view key);
  /// not_found when one of the folders is not there.
  [[nodiscard]] Result<Way> find_way(std::string_view key) const;
  /// Makes the missing folders. Adds to `changed` the indices, in Way::folders, of the folders in which it made one.
  [[nodiscard]] Result<Way> make_way(std::string_view key, std::vector<std::size_t>& changed) const;
  [[nodiscard]] Result<void> write_once(std::string_view key, Pieces pieces, const PutOptions& options) const;
  [[nodiscard]] Result<void> remove_file(std::string_view key) const;

  const std::string folder_;
  const FileStoreOptions options_;
  FileSystemOf file_system_ = file_system_of;
};

}  // namespace trainyard::storage
