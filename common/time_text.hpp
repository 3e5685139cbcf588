#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard {

/// Reads an API duration: one or more of `<number><ms|s|m|h>`, from the largest unit to the smallest: "90s", "1h30m".
/// ErrorKind::invalid for anything else, and for more than 10 years.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// The shortest API duration that parses back to `duration`, which is not negative: "1h30m", "5s", "0s".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

/// "2026-11-21T10:00:00Z": whole seconds, as metav1.Time is written.
[[nodiscard]] std::string format_rfc3339(Time time);
/// "2026-11-21T10:00:00.123000Z": as metav1.MicroTime (Lease, Event) is written.
[[nodiscard]] std::string format_rfc3339_micro(Time time);
/// Reads both forms, with `Z` or a numeric offset, and with any fraction, which is cut to milliseconds.
/// ErrorKind::invalid otherwise.
[[nodiscard]] Result<Time> parse_rfc3339(std::string_view text);

}  // namespace trainyard
