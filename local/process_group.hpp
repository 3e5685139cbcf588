#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"

namespace trainyard::local {

struct ProcessSpec {
  std::vector<std::string>
      arguments;  ///< The program first: a path, or a name that is looked up in PATH of `environment`.
  std::vector<std::string> environment;  ///< NAME=value. Nothing is inherited.
  std::string working_directory;         ///< Empty: ours.
  std::string output_path;               ///< Standard output is appended to it; folders are made.
  std::string error_path;                ///< Standard error; may be the same file.
  bool operator==(const ProcessSpec&) const = default;
};

struct ProcessStarted {
  pid_t pid = 0;
  bool operator==(const ProcessStarted&) const = default;
};
struct ProcessNotStarted {
  std::string message;  ///< What the system said: "exec /bin/x: no such file or directory".
  bool operator==(const ProcessNotStarted&) const = default;
};
/// The program has ended, and so has everything that it had started.
struct ProcessEnded {
  int exit_code = 0;  ///< 128 + signal when a signal ended it.
  int signal = 0;
  bool operator==(const ProcessEnded&) const = default;
};
using ProcessEvent = std::variant<ProcessStarted, ProcessNotStarted, ProcessEnded>;

/// A program and all that descends from it, which end together like the processes of a container: when the program
/// ends, when it is killed here, or when the thread that started it ends, whatever the reason (kill -9 included).
///
/// Between us and the program stands a small supervisor, forked from us: its parent-death signal tells it of our end,
/// and as the reaper of its descendants it finds even those that have left the process group. The program leads a
/// session of its own, so that the terminal's Ctrl-C reaches us alone.
///
/// Used by one thread, the one that started it.
class ProcessGroup {
 public:
  /// ErrorKind::not_found when there is no such program, io when a file cannot be opened or the system gives no
  /// process.
  [[nodiscard]] static Result<ProcessGroup> start(const ProcessSpec& spec);

  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;
  /// Kills whatever still runs and waits for it.
  ~ProcessGroup();

  /// Readable (poll) when next_event() has one.
  [[nodiscard]] int event_fd() const { return events_.get(); }
  /// Empty: nothing has happened. After ProcessEnded or ProcessNotStarted nothing follows.
  [[nodiscard]] std::optional<ProcessEvent> next_event();

  void terminate();  ///< SIGTERM to the program's process group.
  void kill();       ///< SIGKILL to everything.

 private:
  using Steps = std::array<std::string, 3>;  // By SupervisorReport::Step: what was tried, in words.
  ProcessGroup(pid_t supervisor, FileDescriptor events, Steps steps)
      : supervisor_(supervisor), events_(std::move(events)), steps_(std::move(steps)) {}
  void reap();

  pid_t supervisor_ = 0;  // Ours to wait for until reaped, so its number cannot become another process's. 0: reaped.
  FileDescriptor events_;
  Steps steps_;
};

}  // namespace trainyard::local
