#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Rows [row_begin, row_end) of entry number `entry`.
struct Slice {
  std::size_t entry = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  bool operator==(const Slice&) const = default;
};

/// The slices that `rank` of `world_size` writes, in the entries' order: its share of the replicated bytes, its
/// per_rank entries, the sharded rows that it holds, and on rank 0 all rank0 entries. All ranks' shares together hold
/// each replicated row once. The shares of the replicated bytes are nearly equal: a cut falls between two rows, and
/// never into a small entry (below 1 MiB). Reads no bytes of the entries.
///
/// If there are B replicated bytes, rank r of n writes about those from B * r / n to B * (r + 1) / n, in the entries'
/// order: of four ranks, rank 2 writes the third quarter. Parameters and the optimizer's state are replicated where
/// they are equal on all ranks. Where they are not, parameters are rank0 (as with the strategy `decentralized`), and
/// the optimizer's state is per_rank (as with `decentralized` and `adasum`). Tensors that the strategy `sharded` cuts
/// into rows are sharded. The model's buffers are rank0, and random generators per_rank. Where the ranks' parameters or
/// buffers differ, each rank's own are in the checkpoint once more, as per_rank state of the strategy. write_share()
/// puts a share as one object, whose name is in layout.hpp; rank 0 also writes the manifest.
[[nodiscard]] std::vector<Slice> share_of(std::int64_t rank, std::int64_t world_size,
                                          std::span<const HostEntry> entries);

/// All slices that `rank` holds: all replicated bytes, its per_rank entries, the sharded rows that it holds, and on
/// rank 0 all rank0 entries. A node's keeper copies these to the local tier; it still writes only its share to the
/// store.
[[nodiscard]] std::vector<Slice> whole_of(std::int64_t rank, std::span<const HostEntry> entries);

/// Cuts `slice` into pieces of whole rows, in order. Each piece has at most `bytes_max`, except for a single row that
/// is larger.
[[nodiscard]] std::vector<Slice> cut(const Slice& slice, const EntryInfo& info, std::uint64_t bytes_max);

/// The largest chunk of a sharded entry. Smaller chunks let a group with another number of ranks read little besides
/// its own rows.
inline constexpr std::uint64_t shard_chunk_bytes_max = std::uint64_t{32} << 20;

/// Puts `rank`'s share of `entries` as one safetensors file, straight from the entries' memory. Returns the file's
/// receipt. `entries` are all entries of the state, in one order on every rank; `manifest` has no receipts yet. Sharded
/// rows are cut into chunks of at most `chunk_bytes_max`, except that a larger row stays whole. Safe to repeat.
[[nodiscard]] Result<Receipt> write_share(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                          std::int64_t world_size, std::span<const HostEntry> entries,
                                          std::uint64_t chunk_bytes_max = shard_chunk_bytes_max);

/// Puts all bytes of `entries` as `rank`'s data file of the checkpoint `manifest`. Every byte must be in memory. Safe
/// to repeat.
[[nodiscard]] Result<Receipt> write_all(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                        std::span<const HostEntry> entries);

}  // namespace trainyard::checkpoint
