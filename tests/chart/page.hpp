#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A page of docs/, as the tests read it that compare it with the code.
namespace trainyard::chart {

/// The cells of each row, in the page's order, of all tables whose first column is headed `first`. No header rows.
[[nodiscard]] std::vector<std::vector<std::string>> table_rows(const std::string& page, std::string_view first);

/// What stands in backticks in a cell.
[[nodiscard]] std::vector<std::string> quoted(const std::string& cell);

/// The code blocks that are marked with `language`.
[[nodiscard]] std::vector<std::string> code_blocks(const std::string& page, std::string_view language);

}  // namespace trainyard::chart
