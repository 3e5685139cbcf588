#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"
#include "checkpoint/run/keep.hpp"
#include "common/clock.hpp"

/// Which checkpoints count, and which may go. Pure.
namespace trainyard::checkpoint {

/// The last step of which counts what generation `generation` writes, checkpoints and snapshots alike: the lowest from
/// which a later generation resumed. An open claim takes the count of nothing. The highest number there is where no
/// later one takes any, and -1 where one that began afresh takes all.
[[nodiscard]] std::int64_t last_current_step(std::int64_t generation, std::span<const Claim> claims);

/// The complete checkpoints that a restore may pick, newest first. One counts up to its generation's
/// last_current_step(): what a fenced writer still finished beyond it never does.
[[nodiscard]] std::vector<CheckpointId> without_superseded(std::span<const CheckpointId> complete,
                                                           std::span<const Claim> claims);

/// How long a checkpoint stays that a later run has superseded by going on from an earlier step: on a store whose lists
/// lag behind it may have been whole, and not been seen.
inline constexpr std::chrono::hours superseded_grace{1};

/// The checkpoints, complete or not, that `newest` (the newest generation) may delete once `saved` of it is complete:
/// its own job's, but for those that `keep` names, those that were superseded less than `superseded_grace` ago, and
/// those from `saved` on, which the run may be writing. A job's own runs are those of its job_uid; where it has none,
/// those of the same name, model and data from which it resumed, directly or not. A checkpoint that counts and of which
/// nothing is in `facts` stays where they are needed. Of equal ones the oldest is the best: later ones hold the metric
/// of the same validation.
[[nodiscard]] std::vector<CheckpointId> expired(std::span<const CheckpointId> present,
                                                std::span<const CheckpointId> complete, std::span<const Claim> claims,
                                                const Claim& newest, const CheckpointId& saved, Time now,
                                                const Keep& keep, const std::map<CheckpointId, Facts>& facts = {});

}  // namespace trainyard::checkpoint
