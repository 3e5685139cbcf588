#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "worker/dist/host_reducer.hpp"
#include "worker/strategy/bucket_assignment.hpp"
#include "worker/strategy/per_rank_model.hpp"

namespace trainyard::strategy {

struct AsyncOptions {
  std::unique_ptr<dist::HostReducer> reducer;  ///< For the rounds alone.
  std::chrono::milliseconds sync_interval{500};
  std::int64_t warmup_steps = 0;
  BucketLimits limits;  ///< Limits of the buckets of the warm-up's gradients.
};

/// Bagua's asynchronous model average (docs/strategies.md, "Parameters of each rank's own"). In the first
/// `warmup_steps` steps of the training the ranks take the mean of their gradients, as Ddp does. Then each rank trains
/// by its own gradients, while a thread of each rank averages the parameters in rounds (worker/averaging/rounds.hpp).
/// The training thread alone copies and changes parameters, and only before a step of the optimizer. A round's error is
/// that of the next call that returns one.
///
/// hold_parameters() ends the rounds and gives all ranks the mean of their parameters, with the same bits.
[[nodiscard]] std::unique_ptr<GradientSync> make_async_average(PerRankModelParts parts, AsyncOptions options);

}  // namespace trainyard::strategy
