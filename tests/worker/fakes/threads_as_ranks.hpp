#pragma once

#include <cstdint>
#include <cstdlib>

#include "worker/rank/group_environment.hpp"

namespace trainyard::fakes {

/// Turns c10d's flight recorder off. To be called in a process whose ranks are threads, before these threads and the
/// first group: the process has one recorder, and ranks that write to it at once can crash.
inline void let_threads_be_ranks() {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // NOLINT(concurrency-mt-unsafe): no rank thread runs yet.
}

/// The environment of a rank of this process. `port`: of rank 0's store.
inline rank::GroupEnvironment environment_of_thread(std::int64_t world_size, std::int64_t rank, std::uint16_t port) {
  rank::GroupEnvironment environment;
  environment.world_size = world_size;
  environment.rank = rank;
  environment.master_port = port;
  environment.store_port = port;
  environment.job_uid = "u";
  return environment;
}

}  // namespace trainyard::fakes
