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

/// Records that the run of `ours` has put the manifest of step `step`. Replaces the run's previous record. Call it
/// between put_manifest() and the last check_newest() of a save: a run that claims after this check finds the record.
[[nodiscard]] Result<void> put_newest_saved(storage::Store& store, const Claim& ours, std::int64_t step);

/// The checkpoint that the run of `claim` recorded. Nothing if the run has saved nothing, or if its program was too old
/// to write records. A damaged record, or a record of another run, is logged and gives nothing. Errors are only those
/// of the store.
[[nodiscard]] Result<std::optional<CheckpointId>> read_newest_saved(storage::Store& store, const Claim& claim);

}  // namespace trainyard::checkpoint
