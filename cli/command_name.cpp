#include "cli/command_name.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t length_max = 20;

bool is_python(std::string_view program) {
  return program.starts_with("python");
}

bool is_shell(std::string_view program) {
  return program == "sh" || program == "bash" || program == "zsh" || program == "dash";
}

/// The last part of a module's name: "lm" for "tools.lm".
std::string last_part(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

/// The name of the script or module that an interpreter runs. Empty if `program` is no interpreter, or runs code given
/// with -c.
std::optional<std::string> script_of(const std::vector<std::string>& command, std::string_view program) {
  if (!is_python(program) && !is_shell(program)) return std::nullopt;
  for (std::size_t index = 1; index < command.size(); ++index) {
    const std::string& word = command[index];
    const bool has_next = index + 1 < command.size();
    if (word == "-c") return std::nullopt;
    if (!word.starts_with('-')) return fs::path{word}.stem().string();
    if (!is_python(program)) continue;
    if (word == "-m") return has_next ? std::optional{last_part(command[index + 1])} : std::nullopt;
    if (word == "-W" || word == "-X") ++index;  // These options take a value.
  }
  return std::nullopt;
}

/// `text` as a job's name: lower case, without the characters that a name may not hold.
std::string as_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool is_good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_good) name += c;
    if (c >= 'A' && c <= 'Z') name += static_cast<char>(c - 'A' + 'a');
    if ((c == '_' || c == '-' || c == '.') && !name.empty() && !name.ends_with('-')) name += '-';
    if (name.size() == length_max) break;
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() || name.front() <= '9' ? "run" + name : name;
}

}  // namespace

std::string command_name(const std::vector<std::string>& command) {
  const std::string program = fs::path{command.front()}.filename().string();
  return as_name(script_of(command, program).value_or(program));
}

}  // namespace trainyard::cli
