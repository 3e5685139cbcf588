#pragma once

#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard {

/// How a program ended.
struct ProgramEnd {
  int exit_code = 0;   ///< 128 plus the signal's number when a signal ended it.
  std::string output;  ///< The text that the program wrote to its standard output.
  std::string words;   ///< The end of its standard error, on one line and at most 280 bytes.
};

struct ProgramOptions {
  std::map<std::string, std::string> environment;  ///< Added to this process's own, which they override.
  /// True for a program that talks to the user at our terminal: it gets our standard input and error, and stays in our
  /// process group, since another process group could not read the terminal. `words` is empty then.
  bool is_sharing_terminal = false;
  std::stop_token stop;  ///< Kills the program as the deadline does; run_program() returns `cancelled`.
};

/// Runs the program at the path `arguments[0]`, without a shell and without input, until it ends. At the deadline kills
/// the program and the processes that it started; where it shares the terminal, only the program. Blocks; any thread
/// may call. Errors: invalid when there is no such program, when it may not be run, and when it writes more than
/// 64 MiB to its standard output, which also kills it; timeout; cancelled; unavailable; io.
[[nodiscard]] Result<ProgramEnd> run_program(const std::vector<std::string>& arguments,
                                             std::chrono::milliseconds deadline, const ProgramOptions& options = {});

/// Pointers to `texts` and a null pointer, as execve(2) takes them. Valid for as long as `texts` is.
[[nodiscard]] inline std::vector<char*> exec_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace trainyard
