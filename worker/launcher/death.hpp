#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/launcher/group_failure.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// How a process ended, as the kernel reports it.
struct Death {
  int exit_code = 0;  ///< Meaningful when no signal ended the process.
  int signal = 0;     ///< The signal that ended the process; 0: it exited.
  bool is_out_of_memory = false;
  bool operator==(const Death&) const = default;
};

/// Converts the status of waitpid.
[[nodiscard]] Death death_of(int wait_status);

/// The exit code that a shell would report: the process's own, or 128 + the signal.
[[nodiscard]] int exit_code_of(const Death& death);

/// The death of `rank` as a failure of the group. `said`: the RankEnd that the rank sent. It is used only when the rank
/// exited with that exit code.
[[nodiscard]] GroupFailure failure_of(std::int64_t rank, const Death& death, const std::optional<rank::RankEnd>& said);

}  // namespace trainyard::launcher
