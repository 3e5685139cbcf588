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
  posix::Modes modes;  ///< Of what the store makes.
  /// Whether the store's own folder may be a symbolic link. Below it none is followed.
  bool may_be_link = true;
};

/// What TRAINYARD_FILE_MODE says: the permission bits of new files in octal, 0600 when it is not set; folders get the
/// same, and whoever may read them may also enter. ErrorKind::invalid for another text, or for bits that lock the owner
/// out or make files executable.
[[nodiscard]] Result<posix::Modes> file_modes(const Environment& environment);

/// Objects as files under one folder, which is made when the first one is put. An object is written to a hidden
/// temporary file, synced, and then renamed (or linked, for a conditional create), and its folder synced: after a crash
/// or a power loss it is there whole or not at all. Several processes may share the folder, over NFS too. Symbolic
/// links below it are no objects and no folders: they are not listed, and what a key would reach through one is
/// `invalid`.
class FileStore final : public Store {
 public:
  /// `folder`: absolute.
  explicit FileStore(std::string folder, FileStoreOptions options = {});
  /// Asks `file_system` instead of the system, for tests.
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
  [[nodiscard]] bool is_near() const override;
  /// One waits for the medium while what came is verified. More of them make a disk seek.
  [[nodiscard]] std::size_t calls_at_a_time() const override { return 2; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

  /// Where the object's file is, or would be.
  [[nodiscard]] std::string path_of(std::string_view key) const;
  /// A hidden path beside it, in a folder that is made: for what becomes the object once it is whole.
  [[nodiscard]] Result<std::string> temporary_path(std::string_view key) const;
  /// Makes the file at `temporary`, a temporary_path() of `key`, the object.
  [[nodiscard]] Result<void> take_in(const std::string& temporary, std::string_view key) const;

 private:
  /// The store's own folder and those below it that lead to `key`, each open; `name` is the key's last part.
  struct Way {
    std::vector<posix::OpenFolder> folders;
    std::vector<std::string> names;  ///< Of all but the first folder.
    std::string name;
    [[nodiscard]] const posix::OpenFolder& last() const { return folders.back(); }
  };
  [[nodiscard]] Result<posix::OpenFolder> open_root() const;
  [[nodiscard]] Result<posix::OpenFolder> make_root() const;
  /// A way that has come no further than `root`, the store's own folder.
  [[nodiscard]] static Result<Way> begin_way(Result<posix::OpenFolder> root, std::string_view key);
  /// not_found when one of the folders is not there.
  [[nodiscard]] Result<Way> find_way(std::string_view key) const;
  /// Makes the folders that are missing. Adds to `changed` the indices, in Way::folders, of those in which one was
  /// made.
  [[nodiscard]] Result<Way> make_way(std::string_view key, std::vector<std::size_t>& changed) const;
  [[nodiscard]] Result<void> write_once(std::string_view key, Pieces pieces, const PutOptions& options) const;
  [[nodiscard]] Result<void> remove_file(std::string_view key) const;

  const std::string folder_;
  const FileStoreOptions options_;
  FileSystemOf file_system_ = file_system_of;
};

}  // namespace trainyard::storage
