#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/check.hpp"
#include "common/child_program.hpp"
#include "common/clock.hpp"
#include "common/exit_codes.hpp"
#include "common/file_descriptor.hpp"
#include "common/text.hpp"
#include "local/remote_program.hpp"

namespace trainyard::local {
namespace {

constexpr std::size_t ssh_words_bytes_max = 1024;

std::string make_token() {
  std::array<unsigned char, 16> bytes{};
  check(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "the system gives random bytes");
  std::string token = "trainyard-end-";
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

FileDescriptor stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return FileDescriptor{::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
}

struct Ssh {
  pid_t pid = 0;
  FileDescriptor input;
  FileDescriptor output;
  FileDescriptor error;
};

/// In the child of a fork without threads.
[[noreturn]] void become_ssh(const std::vector<std::string>& words, pid_t parent, int input, int output, int error) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(exit_failure);
  ::setpgid(0, 0);  // SIGTERM to our process group is for the program there, and must not end the connection.
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(words.front().c_str(), exec_pointers(words).data());
  std::fprintf(stderr, "%s cannot be started: %s\n", words.front().c_str(), std::strerror(errno));
  ::_exit(127);
}

Result<Ssh> start_ssh(const std::vector<std::string>& words) {
  std::array<std::array<int, 2>, 3> ends{};
  std::array<FileDescriptor, 6> owners;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (::pipe2(ends.at(i).data(), O_CLOEXEC) != 0)
      return fail(ErrorKind::io, fmt::format("making a pipe for ssh: {}", std::strerror(errno)));
    owners.at(2 * i) = FileDescriptor{ends.at(i)[0]};
    owners.at(2 * i + 1) = FileDescriptor{ends.at(i)[1]};
  }
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail(ErrorKind::io, fmt::format("starting ssh: {}", std::strerror(errno)));
  if (pid == 0) become_ssh(words, self, owners[0].get(), owners[3].get(), owners[5].get());
  ::fcntl(owners[1].get(), F_SETFL, O_NONBLOCK);
  return Ssh{.pid = pid, .input = std::move(owners[1]), .output = std::move(owners[2]), .error = std::move(owners[4])};
}

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // The reader of our output has gone. The program's end is still to be reported.
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The next bytes of `file`; empty, with the file closed, at its end.
std::string read_some(FileDescriptor& file) {
  std::string bytes(65'536, '\0');
  const ssize_t count = ::read(file.get(), bytes.data(), bytes.size());
  if (count == 0 || (count < 0 && errno != EINTR)) file.reset();
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

class Connection {
 public:
  Connection(Ssh ssh, std::string script, std::string token)
      : ssh_{std::move(ssh)}, outgoing_{std::move(script)}, output_{std::move(token)} {}

  /// Returns once the program's end has come, or ssh has closed its output.
  void run(const FileDescriptor& signals) {
    while (!output_.end() && ssh_.output) {
      std::array<pollfd, 4> waited{{{signals.get(), POLLIN, 0},
                                    {outgoing_.empty() ? -1 : ssh_.input.get(), POLLOUT, 0},
                                    {ssh_.output.get(), POLLIN, 0},
                                    {ssh_.error.get(), POLLIN, 0}}};
      ::poll(waited.data(), waited.size(), -1);
      signalfd_siginfo info{};
      while (::read(signals.get(), &info, sizeof info) == sizeof info) outgoing_ += "TERM\n";
      if (waited[1].revents != 0) send();
      if (waited[2].revents != 0) write_all(STDOUT_FILENO, output_.take(read_some(ssh_.output)));
      if (waited[3].revents != 0) pass_words();
    }
    // A process that ssh has left behind, such as a ControlMaster, may hold the pipe open.
    pollfd error{.fd = ssh_.error.get(), .events = POLLIN, .revents = 0};
    while (ssh_.error && ::poll(&error, 1, 0) == 1) pass_words();
  }

  /// Ends ssh, and returns its exit code.
  int close() {
    if (output_.end()) ::kill(ssh_.pid, SIGKILL);
    int status = 0;
    while (::waitpid(ssh_.pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] std::optional<RemoteEnd> end() const { return output_.end(); }
  [[nodiscard]] std::string words() const { return std::string{trim(words_)}; }

 private:
  void pass_words() {
    const std::string bytes = read_some(ssh_.error);
    write_all(STDERR_FILENO, bytes);
    words_ = keep_end(words_ + bytes, ssh_words_bytes_max);
  }

  void send() {
    const ssize_t written = ::write(ssh_.input.get(), outgoing_.data(), outgoing_.size());
    if (written > 0) outgoing_.erase(0, static_cast<std::size_t>(written));
    if (written < 0 && errno == EPIPE) outgoing_.clear();  // ssh has ended, and its output ends too.
  }

  Ssh ssh_;
  std::string outgoing_;
  RemoteOutput output_;
  std::string words_;
};

/// Leaves `message` where the kubelet of this machine looks for it.
int leave(const RemoteProgram& program, int exit_code, const std::string& message) {
  std::ofstream file{program.termination_log, std::ios::trunc};
  file << message << std::flush;
  if (!file) std::fprintf(stderr, "writing the termination message to %s failed\n", program.termination_log.c_str());
  return exit_code;
}

int leave_failure(const RemoteProgram& program, int exit_code, std::string_view reason, const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  const nlohmann::json object{{"reason", reason}, {"exitCode", exit_code}, {"message", message}};
  return leave(program, exit_code, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int run_remote_program(const RemoteProgram& program) {
  const FileDescriptor signals = stop_signals();
  const Instant begin = SystemClock{}.instant();
  const std::string token = make_token();
  auto script = remote_script(program, token);
  if (!script)
    return leave_failure(program, contract::exit_do_not_restart, "InvalidEnvironment", script.error().message);
  auto ssh = start_ssh(ssh_arguments(program, script->size()));
  if (!ssh) return leave_failure(program, contract::exit_rendezvous, "HostLost", ssh.error().message);
  Connection connection{std::move(*ssh), std::move(*script), token};
  connection.run(signals);
  const int ssh_code = connection.close();
  if (const auto end = connection.end()) return leave(program, end->exit_code, end->termination_message);
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(SystemClock{}.instant() - begin);
  return leave_failure(
      program, contract::exit_rendezvous, "HostLost",
      fmt::format("host {} is not reached: ssh ended with exit code {} after {} s and wrote: {}", program.host,
                  ssh_code, took.count(), connection.words().empty() ? "nothing" : connection.words()));
}

}  // namespace trainyard::local
