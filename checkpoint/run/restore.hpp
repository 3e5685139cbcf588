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
  bool is_local = false;             ///< A copy on the nodes was loaded: the remote store need not have this step.
  std::int64_t world_size = 1;       ///< The number of ranks of the run that wrote it.
  bool is_final = false;             ///< Its training had reached the end: nothing is left to train.
  std::vector<std::string> skipped;  ///< Newer candidates that were damaged, each with the reason.
};

/// The outcome of a restore, with which a run begins.
struct Resumption {
  std::optional<Restored> restored;  ///< Nothing: there was nothing to resume.
  Claim claim;                       ///< Claim of this run.
  std::vector<Claim> claims;         ///< All claims under the prefix, with this run's; on rank 0 only.
};

/// Fills `entries` from the best candidate that is whole, else from the context's origin if it has one, and claims the
/// next generation. Collective. After an error, or if nothing was restored, the contents of `entries` must not be used.
///
/// Damage (corrupt, not_found) moves all ranks to the next candidate. Any other error is returned, so that an outage
/// costs no progress. The context's patience bounds the waits for a store that fails, and for a run by hand on another
/// machine that may be alive.
///
/// ErrorKind::conflict: a newer attempt of this job has begun. invalid: the prefix belongs to another job or a living
/// run by hand, or the state to another model. corrupt: no complete checkpoint is whole. not_found: the origin has
/// none.
[[nodiscard]] Result<Resumption> restore_state(const RunContext& context, std::span<const HostEntry> entries);

}  // namespace trainyard::checkpoint
