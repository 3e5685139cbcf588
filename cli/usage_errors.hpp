#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// What is said of a command line that CLI11 could not make sense of. Pure: the commands and options that are named are
/// those of the app itself.
namespace trainyard::cli {

/// "trainyard checkpoints ls": how the command is typed.
[[nodiscard]] std::string full_name(const CLI::App& command);
/// The command that `app` has parsed last: `app` itself, or the innermost of its commands.
[[nodiscard]] const CLI::App& innermost_command(const CLI::App& app);

/// `word` stands where one of the commands of `group` should. Names the nearest ones, or all where none is near.
[[nodiscard]] std::string unknown_command(const std::string& word, const CLI::App& group);
/// The command line names none of the commands of `group`. Lists them, each with what it does.
[[nodiscard]] std::string missing_command(const CLI::App& group);
/// `command`, which was given, has no option or argument `word`. Names the nearest of its options, if any is near.
[[nodiscard]] std::string unknown_argument(const std::string& word, const CLI::App& command);

}  // namespace trainyard::cli
