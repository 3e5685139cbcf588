#pragma once

#include <cstddef>

#include "checkpoint/format/claim.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

struct CleanedUp {
  std::size_t checkpoints = 0;  ///< Removed, complete or not.
  std::size_t snapshots = 0;
  std::size_t strangers = 0;  ///< Objects in their folders that no worker writes. They stay.
};

/// Removes all that one life of a job (`ours.job_uid`, not empty) has written under the prefix: its checkpoints (oldest
/// first, each manifest before its data files), then its snapshots, then its claims. Removes nothing if this life has
/// no claim. After an interruption the next call goes on. `ours.attempt` must be higher than any run's attempt:
/// clean_up() puts an open claim, which fences runs that still live.
/// ErrorKind::invalid, before anything is removed, if another job or life has written under the prefix, or a newer
/// attempt of this one; already_exists when another run claims at the same moment; else the store's errors.
[[nodiscard]] Result<CleanedUp> clean_up(storage::Store& store, const Identity& ours, const Clock& clock);

}  // namespace trainyard::checkpoint
