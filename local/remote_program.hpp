#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "local/process_group.hpp"

/// A program on another machine, which ssh starts there. A process of our own on this machine represents it: the
/// process has the program's output and exit code, passes SIGTERM on, and takes the program with it when it ends.
namespace trainyard::local {

struct RemoteProgram {
  std::string host;                              ///< As ssh takes it.
  std::string ssh_config;                        ///< File for ssh -F; empty: ssh's own files.
  std::string working_directory;                 ///< On the host; where it does not exist, the user's home.
  std::string termination_log;                   ///< On this machine.
  std::vector<std::string> arguments;            ///< Program and arguments, found by the PATH of the host.
  std::map<std::string, std::string> variables;  ///< Added to the user's environment on the host.
  bool operator==(const RemoteProgram&) const = default;
};

/// The first argument of our own program that makes it represent a RemoteProgram.
inline constexpr std::string_view remote_command = "remote-process";

/// The process that represents `program`: `self` is the path of our own program, `own` its environment, with which ssh
/// runs too. The variables are in the process's environment, since its arguments can be read by every user.
[[nodiscard]] ProcessSpec process_of(const RemoteProgram& program, const std::string& self,
                                     const std::map<std::string, std::string>& own);
/// Reads what process_of() wrote: the arguments behind remote_command, and the whole environment as NAME=value.
/// ErrorKind::invalid for other arguments.
[[nodiscard]] Result<RemoteProgram> parse_remote_program(const std::vector<std::string>& arguments,
                                                         const std::vector<std::string>& environment);

/// The script that a shell on the host runs. It starts the program in a session of its own, sends it the signals that
/// it reads from its input (a name on each line), and kills it when the input ends. Last it writes a line with `token`,
/// the exit code and the size of the termination message, and then that message. ErrorKind::invalid names a variable
/// that a shell cannot set.
[[nodiscard]] Result<std::string> remote_script(const RemoteProgram& program, std::string_view token);

/// ssh and its arguments. The command on the host reads a script of `script_bytes` bytes from its input and runs it, so
/// that no variable is in the arguments of a process there.
[[nodiscard]] std::vector<std::string> ssh_arguments(const RemoteProgram& program, std::size_t script_bytes);

struct RemoteEnd {
  int exit_code = 0;  ///< 128 + signal if a signal ended it.
  std::string termination_message;
  bool operator==(const RemoteEnd&) const = default;
};

/// Separates the program's output from what remote_script() writes last.
class RemoteOutput {
 public:
  explicit RemoteOutput(std::string token) : token_{std::move(token)} {}
  /// Takes the next bytes that came, and returns those that are the program's output. Bytes that may begin the token
  /// are kept back.
  [[nodiscard]] std::string take(std::string_view bytes);
  /// Set once the program's end has come whole.
  [[nodiscard]] std::optional<RemoteEnd> end() const;

 private:
  std::string token_;
  std::string kept_;
  bool has_token_ = false;
};

/// Runs `program` on its host until it ends, and returns its exit code. Where ssh ends without having reported it,
/// returns contract::exit_rendezvous; the termination message then says which host it was, after which time, and what
/// ssh wrote.
[[nodiscard]] int run_remote_program(const RemoteProgram& program);

}  // namespace trainyard::local
