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

  /// The contents of all code blocks in `language`.
  [[nodiscard]] std::vector<std::string> blocks(std::string_view language) const;

  /// The rows of all tables whose first line begins with `head`, without the two lines of the head. A row is its cells,
  /// trimmed. Empty: there is no such table.
  [[nodiscard]] std::vector<std::vector<std::string>> table(std::string_view head) const;

 private:
  std::vector<std::string> lines_;
};

/// True when the cell is one word in backticks and nothing else.
[[nodiscard]] bool is_quoted(std::string_view cell);
/// The cell without its backticks where is_quoted(), else the cell as it is.
[[nodiscard]] std::string unquoted(std::string_view cell);
/// Every word in backticks that the cell has.
[[nodiscard]] std::vector<std::string> quoted(const std::string& cell);

}  // namespace trainyard::docs
