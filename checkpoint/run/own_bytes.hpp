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

/// How state that one rank has gets to others over the group. Collective; errors are ErrorKind::cancelled.
namespace trainyard::checkpoint {

/// Each rank's own entries may be no larger than this where every node keeps a local copy of all.
inline constexpr std::uint64_t own_entry_bytes_max = std::uint64_t{1} << 20;

/// Success when every node can keep a copy of all of a state like this. ErrorKind::invalid names the entry that is
/// sharded, or one rank's own and too large.
[[nodiscard]] Result<void> check_fits_copies(std::span<const HostEntry> entries);

/// What only one rank has: of rank 0 its buffers, of each rank its own entries, one after the other; in rank order.
[[nodiscard]] Result<std::vector<std::string>> gather_own(Communicator& communicator,
                                                          std::span<const HostEntry> entries);

/// The entries that `rank`'s data file of a copy holds: of rank 0 all, of others their own. `entries`: this rank's,
/// with all replicated bytes. `own`: that rank's text of gather_own(), into which the result points.
[[nodiscard]] std::vector<HostEntry> entries_of_file(std::span<const HostEntry> entries, std::int64_t rank,
                                                     std::string& own);

/// Fills `parts`, of the same roots and sizes on every rank, with what their roots have in them.
[[nodiscard]] Result<void> broadcast_parts(Communicator& communicator, std::span<const BroadcastPart> parts);

}  // namespace trainyard::checkpoint
