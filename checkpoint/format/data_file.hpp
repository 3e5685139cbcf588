#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Rows that another number of ranks may divide otherwise are written in chunks of no more than this.
inline constexpr std::uint64_t shard_chunk_bytes_max = std::uint64_t{32} << 20;

/// Puts `rank`'s share of `entries` as one safetensors file, straight from the entries' memory, and returns what the
/// manifest says of the file. `entries` are all of the state, in an order that is the same on every rank; `plan` is the
/// manifest without receipts. Sharded rows are cut into chunks of at most `chunk_bytes_max`, or of one row that is
/// larger. Safe to repeat.
[[nodiscard]] Result<Receipt> write_share(storage::Store& store, const Manifest& plan, std::int64_t rank,
                                          std::int64_t world_size, std::span<const HostEntry> entries,
                                          std::uint64_t chunk_bytes_max = shard_chunk_bytes_max);

/// Puts `entries`, every byte of which is there, as `rank`'s data file of `plan`. Safe to repeat.
[[nodiscard]] Result<Receipt> write_all(storage::Store& store, const Manifest& plan, std::int64_t rank,
                                        std::span<const HostEntry> entries);

}  // namespace trainyard::checkpoint
