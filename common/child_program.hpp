#pragma once

#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard {

/// How a program ended that was run to its end.
struct ProgramEnd {
  int exit_code = 0;   ///< 128 plus the signal's number when one ended it.
  std::string output;  ///< What it wrote to its standard output.
  std::string words;   ///< The end of what it wrote to its standard error, on one line and otherwise as it came.
};

struct ProgramOptions {
  std::map<std::string, std::string> environment;  ///< Beside this process's own, before which these go.
  /// It talks to whoever sits at our terminal: it has our standard input and error, and stays in our process group, for
  /// a group of its own could not read a terminal. `words` are empty then.
  bool is_sharing_terminal = false;
  std::stop_token stop;  ///< Ends it as the deadline does, and run_program() with `cancelled`.
};

/// Runs `arguments[0]` (a path; no shell is in between) with no input until it ends. What it started itself is ended
/// with it at the deadline, but not where it shares the terminal: that group is ours. Blocks; any thread may call.
/// Errors: invalid when there is no such program or it may not be run; timeout; cancelled; unavailable; io.
[[nodiscard]] Result<ProgramEnd> run_program(const std::vector<std::string>& arguments,
                                             std::chrono::milliseconds deadline, const ProgramOptions& options = {});

}  // namespace trainyard
