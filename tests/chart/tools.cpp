#include "tests/chart/tools.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/paths/paths.hpp"

namespace trainyard::chart {

Outcome run(const std::string& command) {
  std::FILE* pipe = ::popen(fmt::format("cd '{}' && {{ {}; }} 2>&1", paths::source(""), command).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start: " + command);
  Outcome outcome;
  std::array<char, 4096> block{};
  while (const std::size_t bytes = std::fread(block.data(), 1, block.size(), pipe)) {
    outcome.output.append(block.data(), bytes);
  }
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string tool(const std::string& name) {
  Outcome found = run(fmt::format("bash -c 'source scripts/lib.sh && ls -d \"$tools_home/{}\"'", name));
  if (found.exit_code != 0) return {};
  if (found.output.ends_with('\n')) found.output.pop_back();
  return fmt::format("'{}'", found.output);
}

std::filesystem::path source_folder() {
  return paths::source("");
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream{file};
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>{stream}, {}};
}

}  // namespace trainyard::chart
