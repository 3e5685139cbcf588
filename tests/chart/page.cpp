#include "tests/chart/page.hpp"

#include <fmt/format.h>

#include <regex>
#include <sstream>

namespace trainyard::chart {
namespace {

/// Empty for a line that is no row of a table.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with("|")) return cells;
  std::istringstream rest{line.substr(1)};
  for (std::string cell; std::getline(rest, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

}  // namespace

std::vector<std::vector<std::string>> table_rows(const std::string& page, std::string_view first) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines{page};
  bool is_inside = false;
  bool was_row = false;
  for (std::string line; std::getline(lines, line);) {
    const auto cells = cells_of(line);
    const bool is_header = !was_row && !cells.empty();
    was_row = !cells.empty();
    if (is_header || !was_row) {
      is_inside = is_header && cells.front() == first;
    } else if (is_inside && !cells.front().starts_with("---")) {
      rows.push_back(cells);
    }
  }
  return rows;
}

std::vector<std::string> quoted(const std::string& cell) {
  static const std::regex words{"`([^`]+)`"};
  std::vector<std::string> found;
  for (std::sregex_iterator word{cell.begin(), cell.end(), words}; word != std::sregex_iterator{}; ++word) {
    found.push_back((*word)[1]);
  }
  return found;
}

std::vector<std::string> code_blocks(const std::string& page, std::string_view language) {
  std::vector<std::string> blocks;
  const std::string begin = fmt::format("\n```{}\n", language);
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t text = at + begin.size();
    blocks.push_back(page.substr(text, page.find("\n```\n", text) + 1 - text));
  }
  return blocks;
}

}  // namespace trainyard::chart
