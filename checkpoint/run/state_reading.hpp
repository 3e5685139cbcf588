#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Reads all data files in little memory, and compares their checksums with the manifest's. ErrorKind::corrupt names a
/// damaged file.
[[nodiscard]] Result<void> check_bytes(storage::Store& store, const Manifest& manifest);

/// Success when `entries` are the manifest's entries: equal names, placements, dtypes and shapes. A replicated entry
/// may be sharded in the manifest, and the other way round. A per_rank entry may be missing on either side, since a CPU
/// has no GPU's random generator. ErrorKind::invalid names the first difference; internal: see check_held().
[[nodiscard]] Result<void> check_entries(const Manifest& manifest, std::span<const HostEntry> entries);

/// Fills `entries` with `rank`'s state from a checkpoint, which any number of ranks may have written, and verifies
/// every byte. Needs check_entries(). Per_rank entries that the checkpoint lacks for this rank stay as they are.
/// Several requests run at a time, each with memory for its chunks. ErrorKind::corrupt or not_found for a damaged
/// checkpoint.
[[nodiscard]] Result<void> read_state(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                      std::span<const HostEntry> entries);

/// A chunk, and where its wanted bytes go.
struct WantedChunk {
  std::int64_t file_rank = 0;
  const Chunk* chunk = nullptr;     ///< The manifest's.
  std::uint64_t skipped_bytes = 0;  ///< The chunk's bytes before the wanted ones.
  std::span<std::byte> into;
};

/// All that one rank reads of a checkpoint. The manifest and the entries outlive it.
struct StateReading {
  std::vector<WantedChunk> common;  ///< From replicated and rank0 entries: equal, in one order, on every rank.
  std::vector<WantedChunk> own;     ///< From per_rank and sharded entries.
};

/// read_state() in steps, so that a group reads each byte that all ranks need only once. Each rank reads a share of the
/// common chunks, and all of its own. After all ranks have read, they exchange the shares. Errors of read_state();
/// exchange_shares(), a collective call, fails only with ErrorKind::cancelled.
[[nodiscard]] Result<StateReading> plan_reading(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                                std::span<const HostEntry> entries);
[[nodiscard]] Result<void> read_share(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                      std::int64_t world_size, const StateReading& reading);
[[nodiscard]] Result<void> exchange_shares(Communicator& communicator, const StateReading& reading);

}  // namespace trainyard::checkpoint
