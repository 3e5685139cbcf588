#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"

namespace trainyard::checkpoint {

/// Rows [row_begin, row_end) of entry number `entry`.
struct Slice {
  std::size_t entry = 0;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  bool operator==(const Slice&) const = default;
};

/// What `rank` of `world_size` writes, in the entries' order: its share of the replicated bytes, all of rank0's if it
/// is rank 0, its own, and the rows that it holds of sharded ones. The shares of all ranks together hold each
/// replicated row once, and are equal in bytes but for the rows and the small entries (below 1 MiB) that are not cut.
/// The entries' bytes need not be there.
[[nodiscard]] std::vector<Slice> share_of(std::int64_t rank, std::int64_t world_size,
                                          std::span<const HostEntry> entries);

/// What `rank` has of the whole state: all replicated bytes, all of rank0's if it is rank 0, its own, and the rows that
/// it holds of sharded ones.
[[nodiscard]] std::vector<Slice> whole_of(std::int64_t rank, std::span<const HostEntry> entries);

/// `slice` of an entry in whole rows and in order, each of at most `bytes_max` but for a single row that is larger.
[[nodiscard]] std::vector<Slice> cut(const Slice& slice, const EntryInfo& info, std::uint64_t bytes_max);

}  // namespace trainyard::checkpoint
