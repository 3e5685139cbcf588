#pragma once

#include "checkpoint/format/identity.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// After a restart only the newest attempt completes checkpoints: its rank 0 claims the next generation, which fences
/// all lower ones. A fenced run may still put data files, but its rank 0 asks check_newest() before and after it puts a
/// manifest, and the save then fails with conflict.
///
/// Success when a run of `ours` may claim the next generation. Whether a run that has claimed may still write is
/// check_newest()'s to say (checkpoint/run/fence.hpp). The next attempt or life of the same job may at once,
/// since its killed runs put no end; but not while a run by hand gives signs of life at `now`. Another job may once the
/// newest run has ended. `store` only names places.
/// ErrorKind::conflict: a newer attempt of this job has begun. invalid: another job, or a newer life of this one, has
/// not ended, and is named; or a claim cannot be read, so that nobody knows which checkpoints are superseded.
[[nodiscard]] Result<void> check_may_claim(const Inventory& inventory, const Identity& ours,
                                           const storage::Store& store, Time now);

/// Success when every claim could be read. ErrorKind::invalid names an unreadable claim, and what to do.
[[nodiscard]] Result<void> check_claims_readable(const Inventory& inventory, const storage::Store& store);

}  // namespace trainyard::checkpoint
