#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/core/claim.hpp"
#include "worker/checkpoint/core/layout.hpp"

/// generations/G.saved, the record of the newest checkpoint that the run of generation G has saved. Its name is known
/// from the claim, so it leads to a checkpoint that no list shows yet. It is only a hint: a reader asks for the
/// manifest that the record names, and judges that as it judges one that was listed.
namespace trainyard::checkpoint {

/// The bytes that every record has. A reader asks for no more, whatever lies there.
inline constexpr std::size_t newest_saved_bytes = 256;

/// Records that the run of `ours` has put the manifest of step `step`; replaces the run's record before. To be put
/// after that manifest, and before the check_newest() by which the checkpoint is reported: a run that claims later
/// finds it.
[[nodiscard]] Result<void> put_newest_saved(storage::Store& store, const Claim& ours, std::int64_t step);

/// What the run of `claim` recorded. Nothing where it has recorded none, as older programs do, and for a damaged record
/// or one of another run, which are logged. Errors are the store's alone.
[[nodiscard]] Result<std::optional<CheckpointId>> read_newest_saved(storage::Store& store, const Claim& claim);

}  // namespace trainyard::checkpoint
