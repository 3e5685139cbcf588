#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/launcher/group_failure.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// How a process ended, as the kernel tells.
struct Death {
  int exit_code = 0;  ///< Where no signal ended it.
  int signal = 0;     ///< 0: it exited.
  bool is_out_of_memory = false;
  bool operator==(const Death&) const = default;
};

/// From waitpid's status.
[[nodiscard]] Death death_of(int wait_status);

/// A shell's number for it: the exit code, or 128 + the signal.
[[nodiscard]] int exit_code_of(const Death& death);

/// The death of `rank` as the group's failure. `said`: its own last words, which count where its exit code is theirs.
[[nodiscard]] GroupFailure failure_of(std::int64_t rank, const Death& death, const std::optional<rank::RankEnd>& said);

}  // namespace trainyard::launcher
