#pragma once

namespace trainyard {

/// Exit codes of the programs that people call; 0 is success.
inline constexpr int exit_failure = 1;    // The program could not do its work.
inline constexpr int exit_usage = 2;      // Its arguments are wrong.
inline constexpr int exit_stopped = 130;  // Stopped by Ctrl-C: a shell's code for SIGINT.

}  // namespace trainyard
