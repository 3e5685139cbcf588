#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/checkpoint/core/claim.hpp"
#include "worker/checkpoint/core/layout.hpp"

/// Which checkpoints count, and which may go. Pure.
namespace trainyard::checkpoint {

/// The complete checkpoints that a restore may pick, newest first. One of generation G counts only up to the step from
/// which each later generation resumed: what a fenced writer still finished beyond it never does.
[[nodiscard]] std::vector<CheckpointId> counting(std::span<const CheckpointId> complete, std::span<const Claim> claims);

/// The checkpoints, complete or not, that `newest` (the newest generation) may delete once `saved` of it is complete:
/// all but the `keep_count` newest that count, and only those of its own line: of runs of its job_uid, or that it
/// resumed from, directly or not.
[[nodiscard]] std::vector<CheckpointId> expired(std::span<const CheckpointId> present,
                                                std::span<const CheckpointId> complete, std::span<const Claim> claims,
                                                const Claim& newest, const CheckpointId& saved,
                                                std::int64_t keep_count);

}  // namespace trainyard::checkpoint
