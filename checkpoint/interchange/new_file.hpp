#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Takes bytes one after the other, and corrections of a few of them.
class Sink {
 public:
  virtual ~Sink() = default;
  [[nodiscard]] virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  /// Replaces bytes that were written at `offset`.
  [[nodiscard]] virtual Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
};

/// A file that is written under a hidden name in its folder, and renamed when it is whole. A file that is not committed
/// is removed. Errors: already_exists, forbidden, invalid (a part of the path is no folder), not_found (of the folder),
/// io (disk full).
class NewFile final : public Sink {
 public:
  /// already_exists when `path` exists and `may_replace` is false; invalid when `path` is a folder.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, bool may_replace);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() override;

  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) override;
  /// Makes the file durable and gives it its name.
  [[nodiscard]] Result<void> commit();

 private:
  NewFile(FileDescriptor file, std::string path, std::string temporary, bool may_replace)
      : file_{std::move(file)}, path_{std::move(path)}, temporary_{std::move(temporary)}, may_replace_{may_replace} {}

  FileDescriptor file_;
  std::string path_;
  std::string temporary_;  // Empty: the file has its name, or was moved from.
  bool may_replace_ = false;
};

/// A hidden name in the folder of `path`, different in each call, for what is not whole yet.
[[nodiscard]] std::string hidden_name_beside(const std::string& path);

/// The folder of `path`: "." for a bare name.
[[nodiscard]] std::string folder_of(const std::string& path);

/// A folder that is filled under a hidden name, and renamed when it is whole. A folder that is not committed is
/// removed. Errors of NewFile.
class NewFolder {
 public:
  /// `path`: absolute, without a slash at the end.
  explicit NewFolder(std::string path) : path_{std::move(path)}, temporary_{hidden_name_beside(path_)} {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// already_exists when `path` exists and is not an empty folder.
  [[nodiscard]] Result<void> check_free() const;
  /// A new file in the folder. Commit the file before the folder. `key` may contain '/'.
  [[nodiscard]] Result<NewFile> create(const std::string& key) const;
  /// Creates a file with `content`, and commits the file.
  [[nodiscard]] Result<void> write(const std::string& key, std::string_view content) const;
  /// Gives the folder its name, in place of an empty folder. already_exists for any other.
  [[nodiscard]] Result<void> commit();

 private:
  [[nodiscard]] Result<void> make_folder_of(const std::string& file) const;
  [[nodiscard]] tl::unexpected<Error> is_there() const;

  const std::string path_;
  std::string temporary_;  // Empty: the folder has its name.
};

}  // namespace trainyard::checkpoint
