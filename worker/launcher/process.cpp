#include "worker/launcher/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/file_descriptor.hpp"

namespace trainyard::launcher {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Runs between fork and exec, where other threads' locks may be held: makes only calls that are safe then.
[[noreturn]] void become(const char* path, char* const* arguments, char* const* environment, int inherited_file,
                         int parent, int error_pipe) {
  const auto give_up = [error_pipe] {
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof(error));
    _exit(127);
  };
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // The launcher died before prctl() took effect.
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) give_up();
  close(null);
  if (inherited_file >= 0 && fcntl(inherited_file, F_SETFD, 0) != 0) give_up();
  execve(path, arguments, environment);
  give_up();
  _exit(127);
}

}  // namespace

Result<pid_t> start(const Program& program) {
  std::vector<std::string> argument_texts{program.path};
  argument_texts.insert(argument_texts.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> environment_texts = program.environment;
  const std::vector<char*> arguments = pointers(argument_texts);
  const std::vector<char*> environment = pointers(environment_texts);

  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::io, fmt::format("opening a pipe: {}", std::strerror(errno)));
  const FileDescriptor read_end{ends[0]};
  FileDescriptor write_end{ends[1]};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(program.path.c_str(), arguments.data(), environment.data(), program.inherited_file.value_or(-1), parent,
           write_end.get());
  }
  if (child < 0) return fail(ErrorKind::io, fmt::format("starting {}: {}", program.path, std::strerror(errno)));
  write_end.reset();
  int error = 0;
  if (read(read_end.get(), &error, sizeof(error)) != sizeof(error))
    return child;  // exec has closed the pipe: the program runs.
  waitpid(child, nullptr, 0);
  return fail(ErrorKind::not_found, fmt::format("{} cannot be executed: {}", program.path, std::strerror(error)));
}

void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  const std::string prefix = fmt::format("{}=", name);
  std::erase_if(environment, [&](const std::string& entry) { return entry.compare(0, prefix.size(), prefix) == 0; });
  environment.push_back(prefix + std::string{value});
}

std::vector<std::string> current_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace trainyard::launcher
