#pragma once

namespace trainyard {

/// What programs that people call exit with; 0 is all good.
inline constexpr int exit_failure = 1;    // It could not do its work.
inline constexpr int exit_usage = 2;      // It was called wrongly.
inline constexpr int exit_stopped = 130;  // As a shell says it of Ctrl-C.

}  // namespace trainyard
