#include "common/duration.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "common/check.hpp"
#include "common/text.hpp"

namespace trainyard {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr std::array<Unit, 4> units{{{"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr std::int64_t milliseconds_max = std::int64_t{10} * 365 * 24 * 3'600'000;

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto invalid = [&] {
    return fail(ErrorKind::invalid, fmt::format("'{}' is no duration; write it like 90s, 5m or 1h30m", text));
  };
  std::int64_t total = 0;
  std::size_t next_unit = 0;  // Units only get smaller, and each comes once.
  std::string_view rest = text;
  if (rest.empty()) return invalid();
  while (!rest.empty()) {
    const auto number = take_number<std::int64_t>(rest);
    if (!number) return invalid();
    const std::string_view name = rest.substr(0, rest.find_first_of("0123456789"));
    while (next_unit < units.size() && units[next_unit].name != name) ++next_unit;
    if (next_unit == units.size()) return invalid();
    const std::int64_t scale = units[next_unit++].milliseconds;
    if (*number > (milliseconds_max - total) / scale) return invalid();
    total += *number * scale;
    rest.remove_prefix(name.size());
  }
  return std::chrono::milliseconds{total};
}

std::string format_duration(std::chrono::milliseconds duration) {
  check(duration.count() >= 0, "a duration in the API is not negative");
  std::string text;
  std::int64_t rest = duration.count();
  for (const auto& [name, scale] : units) {
    if (rest >= scale) text += fmt::format("{}{}", rest / scale, name);
    rest %= scale;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace trainyard
