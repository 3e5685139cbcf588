#pragma once

#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"

/// Whether what the ranks hold of sharded entries is what it must be. A fault is one of the program:
/// ErrorKind::internal.
namespace trainyard::checkpoint {

/// Success when a sharded `entry` holds rows that it has, and as many bytes as those are. Others name no rows.
[[nodiscard]] Result<void> check_held(const HostEntry& entry);

/// The rows that this rank holds of each sharded entry, in the entries' order.
[[nodiscard]] std::vector<Rows> shards_of(std::span<const HostEntry> entries);

/// Success when all ranks' rows together are each sharded entry's, every row exactly once. `shards`: each rank's
/// shards_of(), in rank order. Names the entry, the rows and the ranks. Pure.
[[nodiscard]] Result<void> check_shards(std::span<const EntryInfo> entries, std::span<const std::vector<Rows>> shards);

}  // namespace trainyard::checkpoint
