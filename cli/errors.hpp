#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "common/exit_codes.hpp"
#include "common/result.hpp"

/// How the program reports an error, and the texts for a command line that CLI11 cannot parse. The texts are pure: all
/// commands and options that they name are read from the app itself.
namespace trainyard::cli {

/// Prints the error on standard error. Returns exit_failure.
inline int report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return exit_failure;
}

/// The words that a user types for `command`: "trainyard checkpoints ls".
[[nodiscard]] std::string full_name(const CLI::App& command);
/// The innermost command of `app` that was parsed; `app` itself if none was.
[[nodiscard]] const CLI::App& innermost_command(const CLI::App& app);

/// The error for `word`, which is no command of `group`. Names the commands that are spelt like it, else all.
[[nodiscard]] std::string unknown_command(const std::string& word, const CLI::App& group);
/// The error for a command line that names no command of `group`. Lists the commands with their descriptions.
[[nodiscard]] std::string missing_command(const CLI::App& group);
/// The error for `word`, which is no option or argument of `command`. Names options that are spelt like it, if any.
[[nodiscard]] std::string unknown_argument(const std::string& word, const CLI::App& command);

/// The error for an option or argument of `command` that is missing or has a wrong value, as `sentence` says.
[[nodiscard]] std::string wrong_value(const std::string& sentence, const CLI::App& command);

}  // namespace trainyard::cli
