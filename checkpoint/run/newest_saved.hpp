#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// generations/G.saved, the record of the newest checkpoint that the run of generation G has saved. The record's name
/// follows from the claim, so the record leads to a checkpoint that no list shows yet. The record is only a hint: a
/// reader asks for the manifest that the record names, and judges this manifest like a listed one.
namespace trainyard::checkpoint {

/// The size of every record. A reader asks for no more bytes, whatever the object holds.
inline constexpr std::size_t newest_saved_bytes = 256;

/// Records that the run of `ours` has put the manifest of step `step`, in place of the run's record before. Call it
/// after the manifest was put, and before the check_newest() by which the checkpoint is reported: a run that claims
/// later finds the record.
[[nodiscard]] Result<void> put_newest_saved(storage::Store& store, const Claim& ours, std::int64_t step);

/// The checkpoint that the run of `claim` recorded. Nothing where there is no record, since the run has saved nothing
/// or was of an older program, and where the record is damaged or another run's, which is logged. Errors are the
/// store's alone.
[[nodiscard]] Result<std::optional<CheckpointId>> read_newest_saved(storage::Store& store, const Claim& claim);

}  // namespace trainyard::checkpoint
