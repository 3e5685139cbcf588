#pragma once

#include <sys/types.h>

namespace trainyard::local {

/// What the supervisor tells its parent, through a pipe.
struct SupervisorReport {
  enum class Kind : int { started, not_started, ended };
  /// What failed when the program was not started; an index because no text can be built between fork and exec.
  enum class Step : int { fork, working_directory, exec };
  Kind kind = Kind::started;
  int value = 0;  // started: the program's pid; not_started: errno; ended: the wait status.
  Step step = Step::fork;
};

/// Everything that the supervisor needs, ready before the fork.
struct SupervisorSpec {
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

/// The life of a supervisor, called in the child of a fork with all signals blocked. Between fork and exec of a process
/// with threads only async-signal-safe calls are allowed, so nothing here allocates.
[[noreturn]] void supervise(const SupervisorSpec& spec);

}  // namespace trainyard::local
