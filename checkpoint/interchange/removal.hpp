#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/interchange/catalogue.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The objects in a checkpoint's folder, when the checkpoint is to be removed.
struct Removal {
  std::vector<std::string> keys;       ///< To be removed, the manifest first: without it the rest is no checkpoint.
  std::vector<std::string> strangers;  ///< Objects that no worker writes. They stay.
};

/// The removal of the checkpoint `id`, whatever its standing. Pure.
[[nodiscard]] Removal removal_of(const Inventory& inventory, const CheckpointId& id);

/// The removal of a checkpoint that a person named. Unless `is_forced`, ErrorKind::conflict for the checkpoint that a
/// restore would take, and for an unfinished one whose run may still be writing it. Pure.
[[nodiscard]] Result<Removal> plan_removal(const Catalogue& catalogue, const Listed& listed, bool is_forced);

/// Removes the first key, then the others, several at a time. Ends at the first error.
[[nodiscard]] Result<void> remove_all(storage::Store& store, const Removal& removal);

struct CleanedUp {
  std::size_t checkpoints = 0;  ///< Removed, complete or not.
  std::size_t snapshots = 0;
  std::size_t strangers = 0;  ///< Objects in their folders that no worker writes. They stay.
};

/// Removes all that one life of a job (`ours.job_uid`, not empty) has written under the prefix; nothing if it has no
/// claim. The claims go last, so that after an interruption the next call goes on. `ours.attempt` must be higher than
/// any run's attempt: clean_up() puts an open claim, which fences runs that still live.
///
/// ErrorKind::invalid, before anything is removed, if another job or life has written under the prefix, or a newer
/// attempt of this one; already_exists when another run claims at the same moment; else the store's errors.
[[nodiscard]] Result<CleanedUp> clean_up(storage::Store& store, const Identity& ours, const Clock& clock);

}  // namespace trainyard::checkpoint
