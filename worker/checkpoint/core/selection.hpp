#pragma once

#include <map>
#include <span>
#include <vector>

#include "worker/checkpoint/core/claim.hpp"
#include "worker/checkpoint/core/keep.hpp"
#include "worker/checkpoint/core/layout.hpp"

/// Which checkpoints count, and which may go. Pure.
namespace trainyard::checkpoint {

/// The complete checkpoints that a restore may pick, newest first. One of generation G counts only up to the step from
/// which each later generation resumed: what a fenced writer still finished beyond it never does. An open claim takes
/// the count of nothing.
[[nodiscard]] std::vector<CheckpointId> counting(std::span<const CheckpointId> complete, std::span<const Claim> claims);

/// The checkpoints, complete or not, that `newest` (the newest generation) may delete once `saved` of it is complete:
/// all that count but those that `keep` names, and only those of its own line: of runs of its job_uid, or that it
/// resumed from, directly or not. One that counts and of which nothing is in `facts` stays where they are needed. Of
/// equal ones the oldest is the best: later ones hold the metric of the same validation.
[[nodiscard]] std::vector<CheckpointId> expired(std::span<const CheckpointId> present,
                                                std::span<const CheckpointId> complete, std::span<const Claim> claims,
                                                const Claim& newest, const CheckpointId& saved, const Keep& keep,
                                                const std::map<CheckpointId, Facts>& facts = {});

}  // namespace trainyard::checkpoint
