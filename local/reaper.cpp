#include "local/reaper.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>

namespace trainyard::local {
namespace {

static_assert(signal_kill_all == SIGUSR2 && signal_parent_died == SIGUSR1);

constexpr int report_fd = 3;

void send_report(const ReaperReport& report) {
  // Atomic, since it is smaller than PIPE_BUF. Other errors are ignored: if the parent is dead, the clean-up still goes
  // on.
  while (::write(report_fd, &report, sizeof report) < 0 && errno == EINTR) {
  }
}

/// Kills the children of this process until there are none. Orphans of the process group become its children, too.
void kill_descendants() {
  char path[64];
  ::snprintf(path, sizeof path, "/proc/self/task/%d/children", ::getpid());
  while (true) {
    const int list = ::open(path, O_RDONLY | O_CLOEXEC);
    if (list < 0) return;  // Without /proc nothing more is known; the process group is already dead.
    char text[4096];
    const ssize_t length = ::read(list, text, sizeof text - 1);
    ::close(list);
    text[length > 0 ? length : 0] = '\0';
    char* next = text;
    for (char* at = text; *at != '\0'; at = next) {
      const long pid = ::strtol(at, &next, 10);
      if (next == at) break;
      // Only a number before a space is whole: the buffer's end may cut the last one off, and the next round has it.
      if (*next == ' ') ::kill(static_cast<pid_t>(pid), SIGKILL);
      while (*next == ' ') ++next;
    }
    int status = 0;
    // When a child ends, its children may become ours, so the list is read again.
    if (::waitpid(-1, &status, 0) < 0 && errno == ECHILD) return;
  }
}

[[noreturn]] void run_program(const ReaperSpec& spec, pid_t reaper, int failure) {
  const auto give_up = [failure](ReaperReport::Step step) {
    const ReaperReport report{.kind = ReaperReport::Kind::not_started, .value = errno, .step = step};
    [[maybe_unused]] const auto written = ::write(failure, &report, sizeof report);
    ::_exit(127);
  };
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != reaper) ::_exit(127);  // The reaper died before the line above.
  ::setsid();
  // The program does not inherit our ignored and blocked signals.
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (spec.working_directory != nullptr && ::chdir(spec.working_directory) != 0) {
    give_up(ReaperReport::Step::working_directory);
  }
  ::execve(spec.program, spec.arguments, spec.environment);
  give_up(ReaperReport::Step::exec);
  ::_exit(127);
}

/// Reaps until the program has ended. Kills its process group and returns its wait status.
int wait_for_end(pid_t program, const sigset_t& signals) {
  while (true) {
    siginfo_t ended{};
    while (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0) {
      // Before its leader is reaped: afterwards the number could belong to another process group.
      if (ended.si_pid == program) ::kill(-program, SIGKILL);
      int status = 0;
      ::waitpid(ended.si_pid, &status, 0);
      if (ended.si_pid == program) return status;
      ended.si_pid = 0;
    }
    siginfo_t info{};
    switch (::sigwaitinfo(&signals, &info)) {
      case SIGTERM:
        ::kill(-program, SIGTERM);
        break;
      case signal_parent_died:
      case signal_kill_all:
        ::kill(-program, SIGKILL);
        break;
      default:
        break;  // After SIGCHLD or an interruption the loop looks again.
    }
  }
}

}  // namespace

void run_reaper(const ReaperSpec& spec) {
  ::prctl(PR_SET_PDEATHSIG, signal_parent_died);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "trainyard-pod");
  if (::getppid() != spec.parent) ::_exit(1);
  ::setpgid(0, 0);  // Not reached by the terminal's Ctrl-C.

  // 0, 1 and 2 are for the program, 3 is the report pipe; all other descriptors are closed.
  const int null = ::open("/dev/null", O_RDONLY);
  // First copied above the low numbers, so that no dup2 below overwrites the source of another.
  const int output = ::fcntl(spec.output, F_DUPFD, 10);
  const int error = ::fcntl(spec.error, F_DUPFD, 10);
  const int report = ::fcntl(spec.report, F_DUPFD, 10);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::dup2(report, report_fd);
  ::fcntl(report_fd, F_SETFD, FD_CLOEXEC);
  ::syscall(SYS_close_range, report_fd + 1, ~0U, 0);

  // A successful exec closes this pipe; otherwise the child writes to it what failed.
  int failure[2] = {-1, -1};
  pid_t program = -1;
  const pid_t self = ::getpid();
  if (::pipe2(failure, O_CLOEXEC) == 0) program = ::_Fork();
  if (program == 0) run_program(spec, self, failure[1]);
  if (program < 0) {
    send_report({.kind = ReaperReport::Kind::not_started, .value = errno, .step = ReaperReport::Step::fork});
    ::_exit(1);
  }
  ::close(failure[1]);
  ReaperReport refusal;
  ssize_t length = 0;
  do {
    length = ::read(failure[0], &refusal, sizeof refusal);
  } while (length < 0 && errno == EINTR);
  ::close(failure[0]);
  if (length == static_cast<ssize_t>(sizeof refusal)) {
    int status = 0;
    ::waitpid(program, &status, 0);
    send_report(refusal);
    ::_exit(1);
  }
  // Only the program writes to its log.
  ::dup2(STDIN_FILENO, STDOUT_FILENO);
  ::dup2(STDIN_FILENO, STDERR_FILENO);
  send_report({.kind = ReaperReport::Kind::started, .value = program});

  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGCHLD, SIGTERM, signal_parent_died, signal_kill_all}) ::sigaddset(&signals, number);
  const int status = wait_for_end(program, signals);
  kill_descendants();
  send_report({.kind = ReaperReport::Kind::ended, .value = status});
  ::_exit(0);
}

}  // namespace trainyard::local
