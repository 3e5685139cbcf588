#pragma once

#include <csignal>
#include <cstdint>

#include "common/clock.hpp"
#include "worker/launcher/culprit.hpp"
#include "worker/launcher/peer_message.hpp"

/// Values for tests of the pure classes that decide about a group of launchers.
namespace trainyard::launcher {

inline constexpr Instant group_start{};

/// The hello of a launcher with one rank, in attempt 2 of the job mnist.
inline Hello hello(std::int64_t first_rank, std::int64_t world_size = 3) {
  return {.job = "mnist",
          .job_uid = "u",
          .attempt = 2,
          .world_size = world_size,
          .first_rank = first_rank,
          .rank_count = 1};
}

inline GroupFailure a_failure(std::int64_t culprit) {
  return {.culprit = culprit, .exit_code = 1, .reason = "Error", .message = "it broke"};
}

inline GroupFailure killed(std::int64_t rank) {
  return failure_of(rank, {.signal = SIGKILL}, {});
}

}  // namespace trainyard::launcher
