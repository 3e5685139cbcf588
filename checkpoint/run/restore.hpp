#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/entry.hpp"
#include "checkpoint/run/run_context.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

struct Restored {
  std::int64_t step = 0;
  std::string uri;
  nlohmann::json values;
  bool is_local = false;             ///< A copy on the nodes: the remote store need not have this step.
  std::int64_t world_size = 1;       ///< Of the run that wrote it.
  bool is_final = false;             ///< The run that wrote it had finished: there is nothing left to train.
  std::vector<std::string> skipped;  ///< Newer checkpoints that were damaged, each with the reason.
};

/// Where a run begins.
struct Resumption {
  std::optional<Restored> restored;  ///< Nothing: there was nothing to resume.
  Claim claim;                       ///< This run's.
  std::vector<Claim> claims;         ///< All of the prefix's with this run's; on rank 0 only.
};

/// Fills `entries` from the newest checkpoint that counts and is whole, of the prefix or on the nodes, else from the
/// context's origin where that is given, and claims the next generation. The claim stays open until all is loaded: what
/// the run before completed until the claim stopped it is loaded instead. Collective. Damage (corrupt, not_found) moves
/// all ranks to the checkpoint before; anything else, such as a store that cannot be reached or a disk that fails, is
/// the outcome, so that an outage costs no progress. What `entries` hold after a failure, or where there was nothing,
/// is not to be used. ErrorKind::conflict: a newer attempt of this job has begun. invalid: the prefix is another job's,
/// which is named, or the state is of another model. corrupt: there are complete checkpoints, and none is whole.
/// not_found: the origin has none.
[[nodiscard]] Result<Resumption> restore_state(const RunContext& context, std::span<const HostEntry> entries);

}  // namespace trainyard::checkpoint
