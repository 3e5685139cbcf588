#include "worker/rank/number.hpp"

#include <fmt/format.h>

#include <charconv>

#include "common/try.hpp"

namespace trainyard::rank {

Result<std::optional<std::int64_t>> optional_number(const Environment& environment, std::string_view name,
                                                    NumberRange range) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  std::int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [parsed_to, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc{} || parsed_to != end) {
    return fail(ErrorKind::invalid,
                fmt::format("the environment variable {} is '{}', which is not a whole number", name, *text));
  }
  if (number < range.min || number > range.max) {
    const std::string allowed = range.max == std::numeric_limits<std::int64_t>::max()
                                    ? fmt::format("at least {}", range.min)
                                    : fmt::format("in {} to {}", range.min, range.max);
    return fail(ErrorKind::invalid,
                fmt::format("the environment variable {} is {}, but must be {}", name, number, allowed));
  }
  return number;
}

Result<std::int64_t> number_or(const Environment& environment, std::string_view name, NumberRange range,
                               std::int64_t otherwise) {
  const auto number = TRY(optional_number(environment, name, range));
  return number.value_or(otherwise);
}

}  // namespace trainyard::rank
