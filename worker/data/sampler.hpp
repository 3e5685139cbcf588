#pragma once

#include <torch/types.h>

#include <cstdint>

namespace trainyard::data {

/// Who asks for samples: equal values but for `rank` on all ranks.
struct GroupRank {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// The order of one epoch's samples for the whole job: a permutation of [0, samples), int64, equal to that of Python's
/// DistributedSampler(seed=seed, shuffle=True) after set_epoch(epoch). Pure. `epoch` counts from 0.
[[nodiscard]] torch::Tensor epoch_order(std::int64_t samples, std::int64_t seed, std::int64_t epoch);

/// The samples of one rank for the step that begins at `position` of `order`: every world_size-th of the next
/// batch_size * world_size, from `rank` on; of the epoch's last step fewer. All ranks get equally many: the last step
/// is filled up with the epoch's first samples, as DistributedSampler does. `position` counts samples of the whole job
/// since the epoch's beginning, so that a run goes on exactly, also with another number of ranks.
[[nodiscard]] torch::Tensor step_samples(const torch::Tensor& order, std::int64_t position, std::int64_t batch_size,
                                         const GroupRank& self);

/// Where the next step begins; the number of samples when this step is the epoch's last.
[[nodiscard]] std::int64_t next_position(std::int64_t samples, std::int64_t position, std::int64_t batch_size,
                                         std::int64_t world_size);

/// Optimizer steps from the beginning of an epoch of `samples`, or of what is left of one, to its end.
[[nodiscard]] std::int64_t steps_for(std::int64_t samples, std::int64_t batch_size, std::int64_t world_size);

/// One rank's samples for evaluation: every one of [0, samples) is in exactly one rank's share, so sizes may differ by
/// one.
[[nodiscard]] torch::Tensor evaluation_samples(std::int64_t samples, const GroupRank& self);

}  // namespace trainyard::data
