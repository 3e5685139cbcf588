#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/interchange/new_file.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// A folder that is filled under a hidden name beside its place, and takes it whole or never. What is not committed is
/// removed. Errors are those of NewFile.
class NewFolder {
 public:
  /// `path`: absolute, without a slash at the end.
  explicit NewFolder(std::string path) : path_(std::move(path)), temporary_(hidden_name_beside(path_)) {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// already_exists when there is anything at the place but an empty folder.
  [[nodiscard]] Result<void> check_free() const;
  /// A file in it, which is to be committed before the folder is. `key` may have parts between '/'.
  [[nodiscard]] Result<NewFile> create(const std::string& key) const;
  /// Creates a file with `content`, and commits it.
  [[nodiscard]] Result<void> write(const std::string& key, std::string_view content) const;
  /// Gives the folder its name, in place of an empty one. already_exists for any other.
  [[nodiscard]] Result<void> commit();

 private:
  [[nodiscard]] Result<void> make_folder_of(const std::string& file) const;
  [[nodiscard]] tl::unexpected<Error> is_there() const;

  const std::string path_;
  std::string temporary_;  // Empty: the folder has its name.
};

}  // namespace trainyard::checkpoint
