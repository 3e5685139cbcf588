#include "common/time_text.hpp"

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

namespace {

struct Fields {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::milliseconds> time;
};

Fields fields_of(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  return {std::chrono::year_month_day{day}, std::chrono::hh_mm_ss<std::chrono::milliseconds>{time - day}};
}

std::string format_seconds(const Fields& fields) {
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(fields.date.year()),
                     static_cast<unsigned>(fields.date.month()), static_cast<unsigned>(fields.date.day()),
                     fields.time.hours().count(), fields.time.minutes().count(), fields.time.seconds().count());
}

/// Takes exactly `count` digits off the front of `text`, or sets `ok` to false.
int take_digits(std::string_view& text, std::size_t count, bool& ok) {
  if (text.size() < count) return ok = false, 0;
  std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  const auto number = take_number<int>(digits);
  ok = ok && number && digits.empty();
  return number.value_or(0);
}

void take(std::string_view& text, char expected, bool& ok) {
  ok = ok && !text.empty() && text.front() == expected;
  if (!text.empty()) text.remove_prefix(1);
}

std::chrono::milliseconds take_fraction(std::string_view& text, bool& ok) {
  if (text.empty() || text.front() != '.') return {};
  text.remove_prefix(1);
  std::int64_t milliseconds = 0;
  std::size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), ++digits) {
    if (digits < 3) milliseconds = milliseconds * 10 + (text.front() - '0');
  }
  ok = ok && digits > 0;
  for (; digits < 3; ++digits) milliseconds *= 10;
  return std::chrono::milliseconds{milliseconds};
}

std::chrono::minutes take_offset(std::string_view& text, bool& ok) {
  if (text == "Z" || text == "z") return text = {}, std::chrono::minutes{0};
  const bool is_east = !text.empty() && text.front() == '+';
  ok = ok && (is_east || (!text.empty() && text.front() == '-'));
  if (!ok) return {};
  text.remove_prefix(1);
  const int hours = take_digits(text, 2, ok);
  take(text, ':', ok);
  const int minutes = take_digits(text, 2, ok);
  ok = ok && hours <= 23 && minutes <= 59;
  return std::chrono::minutes{(is_east ? 1 : -1) * (hours * 60 + minutes)};
}

}  // namespace

std::string format_rfc3339(Time time) {
  return format_seconds(fields_of(time)) + "Z";
}

std::string format_rfc3339_micro(Time time) {
  const Fields fields = fields_of(time);
  return fmt::format("{}.{:03}000Z", format_seconds(fields), fields.time.subseconds().count());
}

Result<Time> parse_rfc3339(std::string_view text) {
  std::string_view rest = text;
  bool ok = true;
  const int year = take_digits(rest, 4, ok);
  take(rest, '-', ok);
  const int month = take_digits(rest, 2, ok);
  take(rest, '-', ok);
  const int day = take_digits(rest, 2, ok);
  take(rest, 'T', ok);
  const int hours = take_digits(rest, 2, ok);
  take(rest, ':', ok);
  const int minutes = take_digits(rest, 2, ok);
  take(rest, ':', ok);
  const int seconds = take_digits(rest, 2, ok);
  const std::chrono::milliseconds fraction = take_fraction(rest, ok);
  const std::chrono::minutes offset = take_offset(rest, ok);
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!ok || !rest.empty() || !date.ok() || hours > 23 || minutes > 59 || seconds > 60) {
    return fail(ErrorKind::invalid, fmt::format("'{}' is no RFC 3339 time", text));
  }
  return Time{std::chrono::sys_days{date} + std::chrono::hours{hours} + std::chrono::minutes{minutes} +
              std::chrono::seconds{seconds} + fraction - offset};
}

}  // namespace trainyard
