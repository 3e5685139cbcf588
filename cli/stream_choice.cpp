#include "cli/stream_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "common/text.hpp"

namespace trainyard::cli {
namespace {

std::optional<int> parse_number_up_to(std::string_view text, int max) {
  const auto number = parse_number<int>(text);
  return number && *number >= 0 && *number <= max ? number : std::nullopt;
}

}  // namespace

Result<StreamChoice> StreamChoice::parse(std::string_view text) {
  const auto refused =
      fail(ErrorKind::invalid, fmt::format("'{}': must be 0 (none), 1 (standard output), 2 (standard error) or 3 "
                                           "(both), or such a number for each rank like 0:1,2:3",
                                           text));
  StreamChoice choice;
  if (const auto all = parse_number_up_to(text, 3)) {
    choice.all_ = *all;
    return choice;
  }
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto colon = part.find(':');
    if (colon == std::string_view::npos) return refused;
    const auto rank = parse_number_up_to(part.substr(0, colon), 1'000'000);
    const auto streams = parse_number_up_to(part.substr(colon + 1), 3);
    if (!rank || !streams) return refused;
    choice.by_rank_[*rank] = *streams;
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  if (choice.by_rank_.empty()) return refused;
  return choice;
}

}  // namespace trainyard::cli
