#pragma once

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::dist {

/// Who chose the number of threads. A user's choice is kept.
enum class Threads { ours, users };

/// Settings of this process that training speed and clean ends depend on: environment variables of NCCL's watchdog,
/// memory allocator, threads. A rank's first call in main, before any other thread runs (so before the RankLink is
/// opened) and before CUDA is loaded. What the user has set stays. Source of the allocator's: about +14 % in DDP and a
/// quarter in one process against glibc's defaults on FashionCNN.
[[nodiscard]] Threads apply_process_settings(const rank::GroupEnvironment& environment);

/// Computes with fewer threads where ranks of other pods share this node's processors, which no rank knows before they
/// have met. Collective; errors are the communicator's.
[[nodiscard]] Result<void> share_processors(const rank::GroupEnvironment& environment, Threads threads,
                                            checkpoint::Communicator& communicator);

}  // namespace trainyard::dist
