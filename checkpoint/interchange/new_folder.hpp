#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/interchange/new_file.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

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
