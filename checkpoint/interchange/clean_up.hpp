#pragma once

#include <cstddef>

#include "checkpoint/format/identity.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

struct CleanedUp {
  std::size_t checkpoints = 0;  ///< Complete or not.
  std::size_t snapshots = 0;
  std::size_t strangers = 0;  ///< Objects beside their files that no worker writes, and that stay.
};

/// Removes all that one life of a job (`ours.job_uid`, not empty) has written under the prefix: its checkpoints, oldest
/// first and each one's manifest before its files, then its snapshots, then its claims. Nothing where it has claimed
/// nothing. Killed anywhere, the next call goes on. `ours.attempt` is higher than that of any run, so that a claim of
/// its own fences what may still run. ErrorKind::invalid, before anything is removed, where another job or life has
/// written there as well, or a newer attempt of this one; already_exists when somebody claims at the same moment; else
/// the store's.
[[nodiscard]] Result<CleanedUp> clean_up(storage::Store& store, const Identity& ours, const Clock& clock);

}  // namespace trainyard::checkpoint
