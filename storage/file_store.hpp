#pragma once

#include <string>

#include "storage/store.hpp"

namespace trainyard::storage {

/// Objects as files under one folder, which is made when the first one is put. An object is written to a hidden
/// temporary file, synced, and then renamed (or linked, for a conditional create), and its folder synced: after a crash
/// or a power loss it is there whole or not at all. Several processes may share the folder, over NFS too.
class FileStore final : public Store {
 public:
  /// `folder`: absolute.
  explicit FileStore(std::string folder);

  [[nodiscard]] Result<void> probe() override;
  [[nodiscard]] Result<void> put(std::string_view key, Pieces pieces, const PutOptions& options) override;
  [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key) override;
  [[nodiscard]] Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(std::string_view prefix) override;
  [[nodiscard]] Result<void> remove(std::string_view key) override;
  [[nodiscard]] Result<void> remove_unfinished(
      const std::function<bool(std::string_view folder)>& is_abandoned) override;
  [[nodiscard]] bool has_conditional_create() const override { return true; }
  [[nodiscard]] bool is_near() const override { return true; }
  /// One waits for the medium while what came is verified. More of them make a disk seek.
  [[nodiscard]] std::size_t calls_at_a_time() const override { return 2; }
  [[nodiscard]] std::string uri_of(std::string_view key) const override;

  /// Where the object's file is, or would be.
  [[nodiscard]] std::string path_of(std::string_view key) const;
  /// A hidden path beside it, in a folder that is made: for what becomes the object once it is whole.
  [[nodiscard]] Result<std::string> temporary_path(std::string_view key) const;

 private:
  [[nodiscard]] Result<void> remove_path(const std::string& path) const;

  std::string folder_;
};

}  // namespace trainyard::storage
