#include "worker/rank/environment.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::rank {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string{name}.c_str());  // NOLINT(concurrency-mt-unsafe): see the header.
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::optional<std::string> exact_variable(std::string_view name) {
  const char* value = std::getenv(std::string{name}.c_str());  // NOLINT(concurrency-mt-unsafe): see the header.
  return value == nullptr ? std::nullopt : std::optional<std::string>{value};
}

Result<std::optional<std::int64_t>> optional_number(const Environment& environment, std::string_view name,
                                                    NumberRange range) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  const auto number = parse_number<std::int64_t>(*text);
  if (!number) {
    return fail(ErrorKind::invalid,
                fmt::format("the environment variable {} is '{}', which is not a whole number", name, *text));
  }
  if (*number < range.min || *number > range.max) {
    const std::string allowed = range.max == std::numeric_limits<std::int64_t>::max()
                                    ? fmt::format("at least {}", range.min)
                                    : fmt::format("in {} to {}", range.min, range.max);
    return fail(ErrorKind::invalid,
                fmt::format("the environment variable {} is {}, but must be {}", name, *number, allowed));
  }
  return number;
}

Result<std::int64_t> number_or(const Environment& environment, std::string_view name, NumberRange range,
                               std::int64_t otherwise) {
  const auto number = TRY(optional_number(environment, name, range));
  return number.value_or(otherwise);
}

}  // namespace trainyard::rank
