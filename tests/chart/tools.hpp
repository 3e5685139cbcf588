#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainyard::chart {

struct Outcome {
  int exit_code = 0;
  std::string output;  ///< Standard output and standard error together.
};

/// Runs a command of the shell in the repository's root.
[[nodiscard]] Outcome run(const std::string& command);

/// The tool that scripts/setup cluster installs, as a word of a shell command. Empty when it is not installed.
[[nodiscard]] std::string tool(const std::string& name);

[[nodiscard]] std::filesystem::path source_folder();
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace trainyard::chart
