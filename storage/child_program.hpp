#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::storage {

/// How a program ended that was run to its end.
struct ProgramEnd {
  int exit_code = 0;   ///< 128 plus the signal's number when one ended it.
  std::string output;  ///< What it wrote to its standard output.
  std::string words;   ///< The end of what it wrote to its standard error, on one line.
};

/// Runs `arguments[0]` (a path; no shell is in between) with this process's environment and no input, until it ends.
/// What it started itself is ended with it at the deadline. Blocks; any thread may call. Errors: invalid when there is
/// no such program or it may not be run; timeout; io.
[[nodiscard]] Result<ProgramEnd> run_program(const std::vector<std::string>& arguments,
                                             std::chrono::milliseconds deadline);

}  // namespace trainyard::storage
