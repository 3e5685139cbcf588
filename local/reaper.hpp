#pragma once

#include <sys/types.h>

namespace trainyard::local {

/// A message of the reaper to its parent, through a pipe.
struct ReaperReport {
  enum class Kind : int { started, not_started, ended };
  /// The step that failed, if the program was not started. An index, since no text can be built between fork and exec.
  enum class Step : int { fork, working_directory, exec };
  Kind kind = Kind::started;
  int value = 0;  // started: the program's pid; not_started: errno; ended: the wait status.
  Step step = Step::fork;
};

/// Everything that the reaper needs, prepared before the fork.
struct ReaperSpec {
  pid_t parent = 0;
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const char* working_directory = nullptr;  // null: the parent's
  int output = -1;
  int error = -1;
  int report = -1;  // The pipe's writing end.
};

inline constexpr int signal_kill_all = 12;     // SIGUSR2
inline constexpr int signal_parent_died = 10;  // SIGUSR1

/// Runs the reaper of a ProcessGroup: a fork of our process, between us and the program. Its parent-death signal tells
/// the reaper of our end. The reaper is the subreaper of the program's descendants, so it finds also those that have
/// left the process group.
///
/// Called in the child of a fork with all signals blocked. In the fork of a process with threads only async-signal-safe
/// calls are allowed, so nothing here allocates.
[[noreturn]] void run_reaper(const ReaperSpec& spec);

}  // namespace trainyard::local
