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
      arguments;  ///< The first is the program: a path, or a name that is found by PATH of `environment`.
  std::vector<std::string> environment;  ///< NAME=value. Nothing is inherited.
  std::string working_directory;         ///< Empty: ours.
  std::string output_path;               ///< Standard output is appended to it. Its folder is created.
  std::string error_path;                ///< Standard error; may be the same file.
  bool operator==(const ProcessSpec&) const = default;
};

struct ProcessStarted {
  pid_t pid = 0;
  bool operator==(const ProcessStarted&) const = default;
};
struct ProcessNotStarted {
  std::string message;  ///< The system's error: "exec /bin/x: no such file or directory".
  bool operator==(const ProcessNotStarted&) const = default;
};
/// The program and all its descendants have ended.
struct ProcessEnded {
  int exit_code = 0;  ///< 128 + signal if a signal ended it.
  int signal = 0;
  bool operator==(const ProcessEnded&) const = default;
};
using ProcessEvent = std::variant<ProcessStarted, ProcessNotStarted, ProcessEnded>;

/// A program and all its descendants, which end together like the processes of a container: when the program ends, when
/// it is killed here, or when the thread that started it ends for any reason (also by kill -9).
///
/// The program leads a session of its own, so that the terminal's Ctrl-C reaches only us. A small reaper between this
/// process and the program sees to their common end (reaper.hpp).
///
/// Used only by the thread that started it.
class ProcessGroup {
 public:
  /// ErrorKind::not_found: there is no such program; io: a log file cannot be opened, or no process can be started.
  [[nodiscard]] static Result<ProcessGroup> start(const ProcessSpec& spec);

  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&& other) noexcept;
  /// Kills what still runs, and waits for its end.
  ~ProcessGroup();

  /// Readable (poll) when next_event() returns an event.
  [[nodiscard]] int event_fd() const { return events_.get(); }
  /// Empty: nothing has happened. No event follows ProcessEnded or ProcessNotStarted.
  [[nodiscard]] std::optional<ProcessEvent> next_event();

  void terminate();  ///< SIGTERM to the program's process group.
  void kill();       ///< SIGKILL to everything.

 private:
  using Steps = std::array<std::string, 3>;  // The action that each ReaperReport::Step tried, for messages.
  ProcessGroup(pid_t reaper, FileDescriptor events, Steps steps)
      : reaper_{reaper}, events_{std::move(events)}, steps_{std::move(steps)} {}
  void reap();

  pid_t reaper_ = 0;  // 0: reaped. Until then no other process gets its number.
  FileDescriptor events_;
  Steps steps_;
};

}  // namespace trainyard::local
