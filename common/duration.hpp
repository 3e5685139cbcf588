#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard {

/// Reads an API duration: one or more of `<number><ms|s|m|h>`, from the largest unit to the smallest: "90s", "1h30m".
/// ErrorKind::invalid for anything else, and for more than 10 years.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// The shortest API duration that parses back to `duration`, which is not negative: "1h30m", "5s", "0s".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

}  // namespace trainyard
