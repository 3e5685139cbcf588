#include "tests/docs/page.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/paths/paths.hpp"

namespace trainyard::docs {
namespace {

std::string trimmed(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string{text.substr(begin, text.find_last_not_of(' ') + 1 - begin)};
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t bar = 0, next = 0; (next = line.find('|', bar + 1)) != std::string_view::npos; bar = next) {
    cells.push_back(trimmed(line.substr(bar + 1, next - bar - 1)));
  }
  return cells;
}

}  // namespace

Page::Page(std::string_view path) {
  std::ifstream stream{paths::source(path)};
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
}

std::vector<std::string> Page::blocks(std::string_view language) const {
  const std::string fence = "```" + std::string{language};
  std::vector<std::string> blocks;
  bool is_inside = false;
  for (const std::string& line : lines_) {
    if (is_inside && line == "```") {
      is_inside = false;
    } else if (is_inside) {
      blocks.back() += line + "\n";
    } else if (line == fence) {
      is_inside = true;
      blocks.emplace_back();
    }
  }
  return blocks;
}

std::vector<std::vector<std::string>> Page::table(std::string_view head) const {
  std::vector<std::vector<std::string>> rows;
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    const bool is_first_line = line == lines_.begin() || !std::prev(line)->starts_with("|");
    if (!is_first_line || !line->starts_with(head)) continue;
    for (auto row = line; row != lines_.end() && row->starts_with("|"); ++row) {
      if (row - line >= 2) rows.push_back(cells_of(*row));
    }
  }
  return rows;
}

bool is_quoted(std::string_view cell) {
  return cell.size() > 2 && cell.find('`', 1) == cell.size() - 1 && cell.front() == '`';
}

std::string unquoted(std::string_view cell) {
  return std::string{is_quoted(cell) ? cell.substr(1, cell.size() - 2) : cell};
}

std::vector<std::string> quoted(const std::string& cell) {
  static const std::regex word{"`([^`]+)`"};
  std::vector<std::string> found;
  for (std::sregex_iterator one{cell.begin(), cell.end(), word}; one != std::sregex_iterator{}; ++one) {
    found.push_back((*one)[1]);
  }
  return found;
}

}  // namespace trainyard::docs
