#pragma once

#include <string>
#include <string_view>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard {

/// "2026-11-21T10:00:00Z": whole seconds, as metav1.Time is written.
[[nodiscard]] std::string format_rfc3339(Time time);
/// "2026-11-21T10:00:00.123000Z": as metav1.MicroTime (Lease, Event) is written.
[[nodiscard]] std::string format_rfc3339_micro(Time time);
/// Reads both forms, with `Z` or a numeric offset, and with any fraction, which is cut to milliseconds.
/// ErrorKind::invalid otherwise.
[[nodiscard]] Result<Time> parse_rfc3339(std::string_view text);

}  // namespace trainyard
