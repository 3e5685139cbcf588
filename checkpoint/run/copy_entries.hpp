#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/entry.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"

/// Sends over the group the state that only one rank has. Collective; errors are ErrorKind::cancelled.
namespace trainyard::checkpoint {

/// The most that the per_rank entries of a rank may take where there is a local tier, since every node's copy holds
/// those of all ranks.
inline constexpr std::uint64_t own_bytes_max = std::uint64_t{1} << 20;

/// Success when a copy can hold all of the state. ErrorKind::invalid names an entry that is sharded, or the largest
/// per_rank entry where those are too large together.
[[nodiscard]] Result<void> check_fits_copies(std::span<const HostEntry> entries);

/// The bytes that only one rank has, one text for each rank, in rank order: its per_rank entries, and on rank 0 the
/// rank0 entries, one after the other.
[[nodiscard]] Result<std::vector<std::string>> gather_own(Communicator& communicator,
                                                          std::span<const HostEntry> entries);

/// The entries in `rank`'s data file of a copy: all entries for rank 0, and its per_rank entries for another rank.
/// `entries`: this rank's, with all replicated bytes. `own`: `rank`'s text of gather_own(), into which the result
/// points.
[[nodiscard]] std::vector<HostEntry> entries_of_file(std::span<const HostEntry> entries, std::int64_t rank,
                                                     std::string& own);

/// Communicator::broadcast_parts(), with every error as ErrorKind::cancelled.
[[nodiscard]] Result<void> broadcast_parts(Communicator& communicator, std::span<const BroadcastPart> parts);

}  // namespace trainyard::checkpoint
