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

/// Which checkpoints are superseded, and which retention may remove. Pure.
namespace trainyard::checkpoint {

/// The last step at which the checkpoints and snapshots of `generation` are not superseded: the lowest step from which
/// a later generation resumed. Open claims supersede nothing. INT64_MAX if nothing is superseded; -1 if a later run
/// began afresh.
[[nodiscard]] std::int64_t last_current_step(std::int64_t generation, std::span<const Claim> claims);

/// Those of `complete` that are not superseded, newest first: up to last_current_step() of their generation. A
/// checkpoint that a fenced run completes beyond that step never becomes a candidate.
[[nodiscard]] std::vector<CheckpointId> without_superseded(std::span<const CheckpointId> complete,
                                                           std::span<const Claim> claims);

/// How long a superseded checkpoint stays. If the store's lists lagged behind, it may have been whole when the later
/// run resumed from an earlier step.
inline constexpr std::chrono::hours superseded_grace{1};

/// The checkpoints of `present` that `newest`, the newest generation, may remove once its checkpoint `saved` is
/// complete. It removes only those of its own runs: the runs with its job_uid or, without a UID, the runs of the same
/// name and fingerprint from which it resumed, directly or not.
/// It keeps the checkpoints that `keep` names, those superseded less than `superseded_grace` ago, and its own from
/// `saved` on, which may be being written. If `keep` needs facts, it also keeps a current checkpoint without any in
/// `facts`. Of equal metrics the oldest is the best: later checkpoints repeat the metric of one validation.
[[nodiscard]] std::vector<CheckpointId> expired(std::span<const CheckpointId> present,
                                                std::span<const CheckpointId> complete, std::span<const Claim> claims,
                                                const Claim& newest, const CheckpointId& saved, Time now,
                                                const Keep& keep, const std::map<CheckpointId, Facts>& facts = {});

}  // namespace trainyard::checkpoint
