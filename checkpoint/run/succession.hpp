#pragma once

#include "checkpoint/format/identity.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Success when a run of `ours` may claim the prefix next. The same job takes over at once: its next attempt, and the
/// next life of one that was deleted and applied again, whose runs may have been killed and said nothing; but not after
/// a run by hand that gives signs of life at `now`. Another job waits until the newest run has ended.
/// ErrorKind::conflict: a newer attempt of this job has begun. invalid: another job has not ended, or a newer life of
/// this job has not; it is named; or a claim cannot be read, so that nobody knows which checkpoints count. `store` only
/// names places.
[[nodiscard]] Result<void> check_may_follow(const Inventory& inventory, const Identity& ours,
                                            const storage::Store& store, Time now);

/// Success when every claim could be read. ErrorKind::invalid names one that could not, and the way out.
[[nodiscard]] Result<void> check_claims_readable(const Inventory& inventory, const storage::Store& store);

}  // namespace trainyard::checkpoint
