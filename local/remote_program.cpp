#include "local/remote_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.hpp"

namespace trainyard::local {
namespace {

constexpr std::string_view variable_prefix = "trainyard:";
constexpr int connect_seconds_max = 10;
constexpr int alive_interval_seconds = 5;  // A host that does not answer three times is lost.
constexpr std::size_t fixed_arguments = 4;

/// `text` as one word of a shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return word + "'";
}

bool is_shell_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_allowed);
}

// The process group may not exist yet when a signal comes: then the program's process itself gets it.
constexpr std::string_view script_end = R"sh(
child=$!
(
  while read -r word <&3; do kill -s "$word" -- "-$child" || kill -s "$word" "$child"; done
  kill -s KILL -- "-$child" || kill -s KILL "$child"
) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$child"
code=$?
trap '' PIPE
kill "$watch" 2>/dev/null
kill -s KILL -- "-$child" 2>/dev/null
printf '%s %s %s\n' "$token" "$code" "$(wc -c <"$log")"
cat "$log"
rm -f "$log"
)sh";

}  // namespace

ProcessSpec process_of(const RemoteProgram& program, const std::string& self,
                       const std::map<std::string, std::string>& own) {
  ProcessSpec spec{.arguments = {self, std::string{remote_command}, program.host, program.ssh_config,
                                 program.working_directory, program.termination_log}};
  spec.arguments.insert(spec.arguments.end(), program.arguments.begin(), program.arguments.end());
  for (const auto& [name, value] : own) spec.environment.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : program.variables)
    spec.environment.push_back(fmt::format("{}{}={}", variable_prefix, name, value));
  return spec;
}

Result<RemoteProgram> parse_remote_program(const std::vector<std::string>& arguments,
                                           const std::vector<std::string>& environment) {
  if (arguments.size() <= fixed_arguments) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is for `trainyard run -H`, which gives it a host and a program", remote_command));
  }
  RemoteProgram program{.host = arguments[0],
                        .ssh_config = arguments[1],
                        .working_directory = arguments[2],
                        .termination_log = arguments[3],
                        .arguments = {arguments.begin() + fixed_arguments, arguments.end()},
                        .variables = {}};
  for (const std::string_view entry : environment) {
    const auto equals = entry.find('=');
    if (!entry.starts_with(variable_prefix) || equals == std::string_view::npos) continue;
    program.variables.emplace(entry.substr(variable_prefix.size(), equals - variable_prefix.size()),
                              entry.substr(equals + 1));
  }
  return program;
}

Result<std::string> remote_script(const RemoteProgram& program, std::string_view token) {
  std::string script;
  for (const auto& [name, value] : program.variables) {
    if (!is_shell_name(name)) {
      return fail(ErrorKind::invalid,
                  fmt::format("the variable '{}' cannot be set on host {}: a shell there takes letters, digits and '_' "
                              "only",
                              name, program.host));
    }
    script += fmt::format("export {}={}\n", name, shell_word(value));
  }
  script += fmt::format("token={}\n", token);
  script += "log=$(mktemp) || exit 1\nexport TRAINYARD_TERMINATION_LOG=\"$log\"\n";
  script += fmt::format("cd {} 2>/dev/null || cd\n", shell_word(program.working_directory));
  script += "exec 3<&0 </dev/null\nsetsid";
  for (const std::string& word : program.arguments) script += " " + shell_word(word);
  script += " 3<&- &";
  return script.append(script_end);
}

std::vector<std::string> ssh_arguments(const RemoteProgram& program, std::size_t script_bytes) {
  std::vector<std::string> words{"ssh", "-T", "-x"};
  for (const auto& [option, value] :
       {std::pair{"BatchMode", std::string{"yes"}}, std::pair{"ConnectTimeout", std::to_string(connect_seconds_max)},
        std::pair{"ServerAliveInterval", std::to_string(alive_interval_seconds)},
        std::pair{"ServerAliveCountMax", std::string{"3"}}}) {
    words.insert(words.end(), {"-o", fmt::format("{}={}", option, value)});
  }
  if (!program.ssh_config.empty()) words.insert(words.end(), {"-F", program.ssh_config});
  // The user's shell there may be any; it only starts sh.
  words.insert(words.end(), {"--", program.host, fmt::format("exec sh -c 'eval \"$(head -c {})\"'", script_bytes)});
  return words;
}

std::string RemoteOutput::take(std::string_view bytes) {
  kept_ += bytes;
  if (has_token_) return {};
  if (const auto begin = kept_.find(token_); begin != std::string::npos) {
    has_token_ = true;
    std::string output = kept_.substr(0, begin);
    kept_.erase(0, begin + token_.size());
    return output;
  }
  std::size_t tail = std::min(kept_.size(), token_.size() - 1);
  while (!token_.starts_with(std::string_view{kept_}.substr(kept_.size() - tail))) --tail;
  std::string output = kept_.substr(0, kept_.size() - tail);
  kept_.erase(0, output.size());
  return output;
}

std::optional<RemoteEnd> RemoteOutput::end() const {
  const auto line_end = kept_.find('\n');
  if (!has_token_ || line_end == std::string::npos) return std::nullopt;
  // " 7 120": wc of some systems writes more spaces.
  std::string_view line = trim(std::string_view{kept_}.substr(0, line_end));
  const auto code = take_number<int>(line);
  line = trim(line);
  const auto bytes = parse_number<std::size_t>(line);
  if (!code || !bytes || kept_.size() - line_end - 1 < *bytes) return std::nullopt;
  return RemoteEnd{.exit_code = *code, .termination_message = kept_.substr(line_end + 1, *bytes)};
}

}  // namespace trainyard::local
