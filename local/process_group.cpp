#include "local/process_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/child_program.hpp"
#include "common/try.hpp"
#include "local/reaper.hpp"

namespace trainyard::local {
namespace {

std::string_view value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string_view entry : environment) {
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return entry.substr(name.size() + 1);
  }
  return {};
}

/// The file of the program `name`: `name` itself if it has a '/', else the first executable of that name in PATH.
Result<std::string> find_program(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) return name;
  while (!path.empty()) {
    const auto colon = std::min(path.find(':'), path.size());
    const std::string candidate = fmt::format("{}/{}", colon == 0 ? "." : path.substr(0, colon), name);
    if (::access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate)) return candidate;
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  return fail(ErrorKind::not_found, fmt::format("exec \"{}\": executable file not found in $PATH", name));
}

Result<FileDescriptor> open_log(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path{path}.parent_path(), error);
  FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
  if (!file) return fail(ErrorKind::io, fmt::format("open log file {}: {}", path, std::strerror(errno)));
  return file;
}

ProcessEvent event_of(const ReaperReport& report) {
  switch (report.kind) {
    case ReaperReport::Kind::started:
      return ProcessStarted{.pid = report.value};
    case ReaperReport::Kind::ended:
      if (WIFSIGNALED(report.value)) return ProcessEnded{128 + WTERMSIG(report.value), WTERMSIG(report.value)};
      return ProcessEnded{.exit_code = WEXITSTATUS(report.value)};
    case ReaperReport::Kind::not_started:
      break;
  }
  return ProcessNotStarted{.message = std::strerror(report.value)};
}

}  // namespace

Result<ProcessGroup> ProcessGroup::start(const ProcessSpec& spec) {
  if (spec.arguments.empty()) return fail(ErrorKind::invalid, "there is no command to run");
  const auto program = TRY(find_program(spec.arguments.front(), value_of(spec.environment, "PATH")));
  auto output = TRY(open_log(spec.output_path));
  auto error = TRY(open_log(spec.error_path));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(ErrorKind::io, fmt::format("create a pipe: {}", std::strerror(errno)));
  FileDescriptor events{ends[0]};
  const FileDescriptor report{ends[1]};
  ::fcntl(events.get(), F_SETFL, O_NONBLOCK);

  const auto arguments = exec_pointers(spec.arguments);
  const auto environment = exec_pointers(spec.environment);
  const ReaperSpec reaper_spec{
      .parent = ::getpid(),
      .program = program.c_str(),
      .arguments = arguments.data(),
      .environment = environment.data(),
      .working_directory = spec.working_directory.empty() ? nullptr : spec.working_directory.c_str(),
      .output = output.get(),
      .error = error.get(),
      .report = report.get()};
  // Signals are blocked during the fork, so that none of our handlers runs in the reaper, and it misses no signal.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t reaper = ::fork();
  if (reaper == 0) run_reaper(reaper_spec);
  const int fork_error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (reaper < 0) {
    return fail(ErrorKind::io, fmt::format("start a process for {}: {}", program, std::strerror(fork_error)));
  }
  return ProcessGroup{
      reaper,
      std::move(events),
      {fmt::format("start a process for {}", program),
       fmt::format("change to the working directory {}", spec.working_directory), fmt::format("exec {}", program)}};
}

ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept
    : reaper_{std::exchange(other.reaper_, 0)}, events_{std::move(other.events_)}, steps_{std::move(other.steps_)} {}

ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept {
  std::swap(reaper_, other.reaper_);
  std::swap(events_, other.events_);
  std::swap(steps_, other.steps_);
  return *this;
}

ProcessGroup::~ProcessGroup() {
  kill();
  reap();
}

std::optional<ProcessEvent> ProcessGroup::next_event() {
  if (reaper_ == 0) return std::nullopt;
  ReaperReport report;
  const ssize_t length = ::read(events_.get(), &report, sizeof report);
  if (length < 0) return std::nullopt;
  ProcessEvent event = ProcessEnded{.exit_code = 128 + SIGKILL, .signal = SIGKILL};
  // If the pipe ends without a report, the reaper was killed, and the program with it.
  if (length == static_cast<ssize_t>(sizeof report)) event = event_of(report);
  if (auto* refusal = std::get_if<ProcessNotStarted>(&event)) {
    refusal->message = fmt::format("{}: {}", steps_.at(static_cast<std::size_t>(report.step)), refusal->message);
  }
  if (!std::holds_alternative<ProcessStarted>(event)) reap();
  return event;
}

void ProcessGroup::terminate() {
  if (reaper_ != 0) ::kill(reaper_, SIGTERM);
}

void ProcessGroup::kill() {
  if (reaper_ != 0) ::kill(reaper_, signal_kill_all);
}

void ProcessGroup::reap() {
  if (reaper_ == 0) return;
  while (::waitpid(reaper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  reaper_ = 0;
}

}  // namespace trainyard::local
