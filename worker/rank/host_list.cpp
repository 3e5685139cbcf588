#include "worker/rank/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "common/text.hpp"

namespace trainyard::rank {
namespace {

constexpr std::size_t hosts_max = 65'536;
constexpr std::size_t digits_max = 9;

struct HostRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t width = 0;  // "001-003" has numbers of at least three digits.
};

std::optional<std::int64_t> number_in(std::string_view digits) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() > digits_max || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  return parse_number<std::int64_t>(digits);
}

std::optional<HostRange> parse_range(std::string_view text) {
  const auto dash = std::min(text.find('-'), text.size());
  const std::string_view begin = text.substr(0, dash);
  const std::string_view end = dash == text.size() ? begin : text.substr(dash + 1);
  const auto first = number_in(begin);
  const auto last = number_in(end);
  if (!first || !last || *last < *first) return std::nullopt;
  return HostRange{.first = *first, .last = *last, .width = begin.size()};
}

/// The part of `text` up to the next comma outside of brackets; that part and the comma are taken from `text`.
std::string_view take_entry(std::string_view& text) {
  std::size_t depth = 0;
  std::size_t end = 0;
  for (; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
    if (text[end] == '[') ++depth;
    if (text[end] == ']' && depth > 0) --depth;
  }
  const std::string_view entry = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return entry;
}

/// Appends each range's numbers to each of `names`. False where `ranges` are not Slurm's, or there are too many names.
bool append_ranges(std::vector<std::string>& names, std::string_view ranges) {
  std::vector<std::string> longer;
  std::vector<HostRange> parsed;
  while (true) {
    const auto comma = std::min(ranges.find(','), ranges.size());
    const auto range = parse_range(ranges.substr(0, comma));
    if (!range) return false;
    parsed.push_back(*range);
    if (comma == ranges.size()) break;
    ranges.remove_prefix(comma + 1);
  }
  for (const std::string& name : names) {
    for (const HostRange& range : parsed) {
      for (std::int64_t number = range.first; number <= range.last; ++number) {
        if (longer.size() == hosts_max) return false;
        longer.push_back(fmt::format("{}{:0{}}", name, number, range.width));
      }
    }
  }
  names = std::move(longer);
  return true;
}

/// Empty where `entry` is no host, such as "n[1-3]".
std::vector<std::string> expand_entry(std::string_view entry) {
  if (entry.empty()) return {};
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const auto open = std::min(entry.find('['), entry.size());
    const std::string_view plain = entry.substr(0, open);
    if (plain.find_first_of("] \t") != std::string_view::npos) return {};
    for (std::string& name : names) name += plain;
    if (open == entry.size()) break;
    const auto close = entry.find(']', open);
    if (close == std::string_view::npos || !append_ranges(names, entry.substr(open + 1, close - open - 1))) return {};
    entry.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  std::vector<std::string> hosts;
  std::string_view rest = text;
  do {
    const std::string_view entry = take_entry(rest);
    auto names = expand_entry(entry);
    if (names.empty() || hosts.size() + names.size() > hosts_max || (rest.empty() && text.ends_with(','))) {
      return fail(ErrorKind::invalid,
                  fmt::format("'{}' is not a list of hosts as Slurm writes it, such as n[001-003,7],m2, of at most {} "
                              "hosts",
                              text, hosts_max));
    }
    std::ranges::move(names, std::back_inserter(hosts));
  } while (!rest.empty());
  return hosts;
}

Result<std::int64_t> count_of_node(std::string_view text, std::int64_t index) {
  const auto wrong = [&] {
    return fail(
        ErrorKind::invalid,
        fmt::format("'{}' does not give the tasks of node {} as Slurm writes them, such as 2(x3),1", text, index));
  };
  std::string_view rest = text;
  std::int64_t nodes = 0;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::int64_t times = 1;
    if (const auto open = entry.find("(x"); open != std::string_view::npos && entry.ends_with(')')) {
      const auto repeated = number_in(entry.substr(open + 2, entry.size() - open - 3));
      if (!repeated) return wrong();
      times = *repeated;
      entry = entry.substr(0, open);
    }
    const auto count = number_in(entry);
    if (!count) return wrong();
    nodes += times;
    if (index < nodes) return *count;
  }
  return wrong();
}

}  // namespace trainyard::rank
