#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A page of docs/, read as its readers see it.
namespace trainyard::docs {

class Page {
 public:
  /// `path` is relative to the repository's root.
  explicit Page(std::string_view path);

  /// The contents of all code blocks of `language`.
  [[nodiscard]] std::vector<std::string> blocks(std::string_view language) const;

  /// The rows of the table whose first line begins with `head`, each as its cells without blanks around them. The two
  /// lines of the head are left out. Empty: there is no such table.
  [[nodiscard]] std::vector<std::vector<std::string>> table(std::string_view head) const;

 private:
  std::vector<std::string> lines_;
};

/// What stands between the backticks of a cell that has nothing else; the cell itself where it has.
[[nodiscard]] std::string unquoted(std::string_view cell);
[[nodiscard]] bool is_quoted(std::string_view cell);

}  // namespace trainyard::docs
