#include "common/child_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/file_descriptor.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

extern char** environ;

namespace trainyard {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t output_bytes_max = std::size_t{64} << 20;
constexpr std::size_t words_bytes_max = 280;
constexpr std::size_t words_bytes_read = words_bytes_max + 1;  // One byte more shows that the text was longer.
constexpr int stop_poll_milliseconds = 50;                     // Between two checks for a requested stop.

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorKind::io, fmt::format("a pipe: {}", std::strerror(errno)));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{FileDescriptor{ends[0]}, FileDescriptor{ends[1]}};
}

/// A child process. The destructor kills it, with its process group where it has its own.
class Child {
 public:
  Child(pid_t pid, bool has_own_group)
      : pid_{pid}, has_own_group_{has_own_group}, descriptor_{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))} {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (is_over_) return;
    ::kill(has_own_group_ ? -pid_ : pid_, SIGKILL);
    wait();
  }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    is_over_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  bool has_own_group_;
  FileDescriptor descriptor_;
  bool is_over_ = false;
};

/// The NAME=VALUE of this process's environment, in which `added` replaces variables of the same names.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text{*variable};
    if (!added.contains(std::string{text.substr(0, text.find('='))})) variables.emplace_back(text);
  }
  for (const auto& [name, value] : added) variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

Result<pid_t> start(const std::vector<std::string>& arguments, const Pipe& output, const Pipe& words,
                    const ProgramOptions& options) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
  if (!options.is_sharing_terminal) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, words.write.get(), STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int group = options.is_sharing_terminal ? 0 : POSIX_SPAWN_SETPGROUP;
  posix_spawnattr_setflags(&attributes, static_cast<short>(group | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  const std::vector<std::string> variables = environment_with(options.environment);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, arguments.front().c_str(), &actions, &attributes,
                                   exec_pointers(arguments).data(), exec_pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return pid;
  const bool may_pass = failed == EAGAIN || failed == ENOMEM || failed == ETXTBSY;
  return fail(may_pass ? ErrorKind::unavailable : ErrorKind::invalid, std::strerror(failed));
}

enum class Left { more, nothing_now, end };

// Appends to `into` what `descriptor` has now, but only a part of the text of a program that writes without end, so
// that the caller can look at its deadline.
Left read_available(int descriptor, std::string& into) {
  constexpr int reads_max = 16;
  std::array<char, 65'536> buffer{};
  for (int reads = 0; reads < reads_max;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Left::nothing_now;
    if (got == 0) return Left::end;
    into.append(buffer.data(), static_cast<std::size_t>(got));
    ++reads;
  }
  return Left::more;
}

std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

Result<ProgramEnd> run_program(const std::vector<std::string>& arguments, std::chrono::milliseconds deadline,
                               const ProgramOptions& options) {
  auto output = TRY(make_pipe());
  auto words = TRY(make_pipe());
  const auto pid = start(arguments, output, words, options);
  if (!pid) return fail(fmt::format("running {}", arguments.front()), pid.error());
  Child child{*pid, !options.is_sharing_terminal};
  output.write.reset();
  words.write.reset();
  if (child.descriptor() < 0)
    return fail(ErrorKind::io, fmt::format("watching {}: {}", arguments.front(), std::strerror(errno)));

  ProgramEnd end;
  const auto until = steady_clock::now() + deadline;
  std::array<pollfd, 3> watched{
      {{child.descriptor(), POLLIN, 0}, {output.read.get(), POLLIN, 0}, {words.read.get(), POLLIN, 0}}};
  // True while there is more to read at once.
  const auto read_output = [&]() -> Result<bool> {
    const Left of_output = read_available(output.read.get(), end.output);
    const Left of_words = read_available(words.read.get(), end.words);
    if (of_output == Left::end) watched[1].fd = -1;
    if (of_words == Left::end) watched[2].fd = -1;
    if (end.words.size() > words_bytes_read) end.words.erase(0, end.words.size() - words_bytes_read);
    if (end.output.size() > output_bytes_max) {
      return fail(ErrorKind::invalid, fmt::format("{} wrote more than {} bytes to its standard output",
                                                  arguments.front(), output_bytes_max));
    }
    return of_output == Left::more || of_words == Left::more;
  };
  // Wait for the end of the program and not of its output, which a process that it left running may hold open.
  while (watched[0].revents == 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    if (left.count() <= 0)
      return fail(ErrorKind::timeout, fmt::format("{} did not end within {} seconds", arguments.front(),
                                                  std::chrono::ceil<std::chrono::seconds>(deadline).count()));
    if (options.stop.stop_requested())
      return fail(ErrorKind::cancelled, fmt::format("{} was given up, since a stop was requested", arguments.front()));
    const std::int64_t longest = options.stop.stop_possible() ? stop_poll_milliseconds : 1'000'000;
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min<std::int64_t>(left.count(), longest)));
    TRY(read_output());
  }
  end.exit_code = child.wait();
  // A process that the program has left running may write on, without end.
  bool has_more = TRY(read_output());
  while (has_more && steady_clock::now() < until && !options.stop.stop_requested()) has_more = TRY(read_output());
  end.words = on_one_line(keep_end(end.words, words_bytes_max));
  return end;
}

}  // namespace trainyard
