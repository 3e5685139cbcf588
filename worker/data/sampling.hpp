#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "include/trainyard/data.hpp"

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

/// How the ranks of a training take the samples of its epochs. A position in an epoch is a number of samples of the
/// whole job, whichever way they are taken.
struct Sampling {
  std::int64_t dataset_samples = 1;  ///< The size of the training set.
  const Sampler* sampler = nullptr;  ///< nullptr: random orders of all samples. Outlives the object.
  bool is_shared = true;             ///< All ranks share one order. False: each rank takes a whole order of its own.
  std::int64_t seed = 0;             ///< Seed of the random orders.
  /// Where ranks join: the samples of each rank's order, by rank, each at least 1. Ranks with shorter orders than the
  /// longest have no samples left at an epoch's end. Empty: all orders are equally long.
  std::vector<std::int64_t> order_sizes{};
};

/// How many places an epoch of the whole job has: its samples; where ranks join, as many as if every order were as long
/// as the longest.
[[nodiscard]] std::int64_t epoch_samples(const Sampling& sampling, std::int64_t world_size);

/// How many samples the whole job has in the places [begin, end) of an epoch: all but those after the end of a rank's
/// order.
[[nodiscard]] std::int64_t samples_in(const Sampling& sampling, std::int64_t begin, std::int64_t end);

/// True where an epoch may have another number of samples than the training set.
[[nodiscard]] inline bool has_epochs_of_own_size(const Sampling& sampling) {
  return sampling.sampler != nullptr || !sampling.is_shared;
}

/// The order of `epoch`, from 0, of which `self` takes samples: int64 [samples of the order]. Without a sampler it is
/// that of epoch_order(), or, where nothing is shared, a random one of the rank's own. Throws what the sampler throws,
/// and InvalidJob when its order has another type or size, or a sample that the training set does not have.
[[nodiscard]] torch::Tensor order_of(const Sampling& sampling, std::int64_t epoch, const GroupRank& self);

/// The samples of `order` that `self` takes in the batch that begins at `position`, a place in the whole job's epoch.
/// As step_samples() where the order is shared out; else the next `batch_size` of the rank's own order, or none once
/// that order has ended.
[[nodiscard]] torch::Tensor batch_samples(const Sampling& sampling, const torch::Tensor& order, std::int64_t position,
                                          std::int64_t batch_size, const GroupRank& self);

}  // namespace trainyard::data
