#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace trainyard::fakes {

/// A folder for one test, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "trainyard-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;  // An error here must not fail the test.
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string uri() const { return "file://" + path_; }
  /// The path of `name` in the folder, whether or not it exists.
  [[nodiscard]] std::filesystem::path file(std::string_view name) const { return std::filesystem::path{path_} / name; }
  /// Writes `text` to the file `name` in the folder; returns its path.
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    std::ofstream{file(name), std::ios::binary | std::ios::trunc} << text;
    return file(name);
  }

 private:
  std::string path_;
};

/// The text of a file; empty when there is none.
inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream{path, std::ios::binary}.rdbuf();
  return text.str();
}

}  // namespace trainyard::fakes
