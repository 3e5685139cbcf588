#pragma once

#include <cstdint>

#include "worker/launcher/group_environment.hpp"

namespace trainyard::dist {

/// Settings of this process that training speed and clean ends depend on: environment variables of NCCL's watchdog,
/// memory allocator, threads. A rank's first call in main, before any other thread runs and before CUDA is loaded. What
/// the user has set stays. Source of the allocator's: about +14 % in DDP and a quarter in one process against glibc's
/// defaults on FashionCNN.
void apply_process_settings(const launcher::GroupEnvironment& environment);

/// How many threads one rank computes with, at least 1: the processors that this process may use, shared by the ranks
/// on this machine. One thread too many costs more than half of the speed.
[[nodiscard]] std::int64_t threads_per_rank(std::int64_t processors, std::int64_t ranks_here);

}  // namespace trainyard::dist
