#pragma once

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::dist {

/// Who chose the number of threads: this program (`ours`) or the user, whose choice is kept.
enum class Threads { ours, users };

/// Sets NCCL's watchdog, the memory allocator and the number of threads, but keeps what the user has set. A rank's
/// first call in main: it changes the environment, so that no other thread (as of the RankLink) may run yet, nor CUDA
/// be loaded. The allocator's settings give about 14 % more speed in DDP than glibc's defaults, and 25 % in one
/// process, on FashionCNN.
[[nodiscard]] Threads apply_process_settings(const rank::GroupEnvironment& environment);

/// Gives cuBLAS a workspace of fixed size, without which its results may differ from run to run and torch refuses them
/// to deterministic programs. Keeps what the user has set. To be called when apply_process_settings() may be.
void make_cublas_deterministic();

/// Reduces the number of threads where ranks of other pods share this node's processors, which no rank knows before the
/// group has formed. Collective; errors are the communicator's.
[[nodiscard]] Result<void> share_processors(const rank::GroupEnvironment& environment, Threads threads,
                                            checkpoint::Communicator& communicator);

}  // namespace trainyard::dist
