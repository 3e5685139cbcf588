#pragma once

#include <span>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "common/result.hpp"

/// Checks that exactly one rank holds each row of each sharded entry. A check that fails is a bug of the program:
/// ErrorKind::internal.
///
/// Which bytes a rank writes is decided by share_of() in data_file.hpp: rank 2 of four writes about the third quarter
/// of the replicated bytes (parameters and the optimizer's state), its own per_rank entries (random generators), the
/// sharded rows that it holds, and none of rank 0's entries (the model's buffers).
namespace trainyard::checkpoint {

/// Success when `entry` is sharded and holds rows that exist, with the right number of bytes. Success when `entry` is
/// not sharded and names no rows.
[[nodiscard]] Result<void> check_held(const HostEntry& entry);

/// The rows that this rank holds of each sharded entry, in the entries' order.
[[nodiscard]] std::vector<Rows> shards_of(std::span<const HostEntry> entries);

/// Success when exactly one rank holds each row of each sharded entry. `shards`: the shards_of() of each rank, in rank
/// order. The error names the entry, the rows and the ranks. Pure.
[[nodiscard]] Result<void> check_shards(std::span<const EntryInfo> entries, std::span<const std::vector<Rows>> shards);

}  // namespace trainyard::checkpoint
