#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The largest chunk of a sharded entry. Smaller chunks let a group with another number of ranks read little besides
/// its own rows.
inline constexpr std::uint64_t shard_chunk_bytes_max = std::uint64_t{32} << 20;

/// Puts `rank`'s share of `entries` as one safetensors file, straight from the entries' memory. Returns the file's
/// receipt. `entries` are all entries of the state, in one order on every rank; `plan` is the manifest without
/// receipts. Sharded rows are cut into chunks of at most `chunk_bytes_max`, except that a larger row stays whole. Safe
/// to repeat.
[[nodiscard]] Result<Receipt> write_share(storage::Store& store, const Manifest& plan, std::int64_t rank,
                                          std::int64_t world_size, std::span<const HostEntry> entries,
                                          std::uint64_t chunk_bytes_max = shard_chunk_bytes_max);

/// Puts all bytes of `entries` as `rank`'s data file of `plan`. Every byte must be in memory. Safe to repeat.
[[nodiscard]] Result<Receipt> write_all(storage::Store& store, const Manifest& plan, std::int64_t rank,
                                        std::span<const HostEntry> entries);

}  // namespace trainyard::checkpoint
