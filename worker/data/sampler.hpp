#pragma once

#include <torch/types.h>

#include <cstdint>

namespace trainyard::data {

/// The rank that asks for samples. `world_size` is equal on all ranks.
struct GroupRank {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// The order of one epoch's samples for the whole job: a permutation of [0, samples), int64, equal to that of Python's
/// DistributedSampler(seed=seed, shuffle=True) after set_epoch(epoch). `epoch` is from 0. Pure.
[[nodiscard]] torch::Tensor epoch_order(std::int64_t samples, std::int64_t seed, std::int64_t epoch);

/// The samples of one rank for the step that begins at `position` of `order`: every world_size-th of the next
/// batch_size * world_size samples, from `self.rank` on. All ranks get equally many: the epoch's last step is shorter,
/// and is filled up with the epoch's first samples, as DistributedSampler does. `position` is a number of samples of
/// the whole job, so that a run can resume exactly with another number of ranks.
[[nodiscard]] torch::Tensor step_samples(const torch::Tensor& order, std::int64_t position, std::int64_t batch_size,
                                         const GroupRank& self);

/// The position of the next step; `samples` when this step is the epoch's last.
[[nodiscard]] std::int64_t next_position(std::int64_t samples, std::int64_t position, std::int64_t batch_size,
                                         std::int64_t world_size);

/// How many optimizer steps `samples` samples take, those of an epoch or of the rest of one.
[[nodiscard]] std::int64_t steps_for(std::int64_t samples, std::int64_t batch_size, std::int64_t world_size);

/// One rank's samples for evaluation. Each of [0, samples) belongs to exactly one rank, so that the ranks' numbers of
/// samples may differ by one.
[[nodiscard]] torch::Tensor evaluation_samples(std::int64_t samples, const GroupRank& self);

}  // namespace trainyard::data
