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

/// Reads the data files and compares sizes and checksums with the manifest's, in little memory. ErrorKind::corrupt for
/// one that is damaged, and the store's errors.
[[nodiscard]] Result<void> check_bytes(storage::Store& store, const Manifest& manifest);

/// Success when `entries` are those of the manifest: same names, placements, dtypes and shapes. Per-rank ones may be
/// missing on either side, since a GPU's random generator is not there on a CPU. ErrorKind::invalid names the first
/// difference; internal: check_held().
[[nodiscard]] Result<void> check_entries(const Manifest& manifest, std::span<const HostEntry> entries);

/// Fills `entries` with `rank`'s state out of a checkpoint, of any number of ranks, and verifies every byte. Of sharded
/// entries it reads the chunks that meet the rows held here. Several requests are under way at a time, for as many
/// chunks of which memory is needed besides. Per-rank entries that the checkpoint does not have, for this rank or at
/// all, stay as they are. ErrorKind::corrupt or not_found for a damaged one. Needs check_entries().
[[nodiscard]] Result<void> read_state(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                      std::span<const HostEntry> entries);

/// A chunk, and where those of its bytes belong that are wanted.
struct WantedChunk {
  std::int64_t file_rank = 0;
  const Chunk* chunk = nullptr;     ///< The manifest's.
  std::uint64_t skipped_bytes = 0;  ///< Of the chunk's, before those.
  std::span<std::byte> into;
};

/// What a rank needs of a checkpoint. The manifest and the entries outlive it.
struct StateReading {
  std::vector<WantedChunk> common;  ///< Replicated and rank 0's: the same chunks, in the same order, on every rank.
  std::vector<WantedChunk> own;     ///< Of its own and of sharded entries.
};

/// read_state() in two steps, so that a group reads each byte that all of its ranks need once: each rank reads a share
/// of them and everything of its own; when all have, they exchange the shares. Errors are those of read_state(), of
/// which exchange_shares(), a collective call, has ErrorKind::cancelled alone.
[[nodiscard]] Result<StateReading> plan_reading(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                                std::span<const HostEntry> entries);
[[nodiscard]] Result<void> read_share(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                      std::int64_t world_size, const StateReading& reading);
[[nodiscard]] Result<void> exchange_shares(Communicator& communicator, const StateReading& reading);

}  // namespace trainyard::checkpoint
