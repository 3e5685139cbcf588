#pragma once

#include <torch/types.h>

#include <cstdint>

#include "include/trainyard/data.hpp"
#include "worker/data/sampler.hpp"

namespace trainyard::data {

/// How the ranks of a training take the samples of its epochs. A position in an epoch is a number of samples of the
/// whole job, whichever way they are taken.
struct Sampling {
  std::int64_t dataset_samples = 1;  ///< The size of the training set.
  const Sampler* sampler = nullptr;  ///< nullptr: random orders of all samples. Outlives the object.
  bool is_shared = true;             ///< All ranks share one order. False: each rank takes a whole order of its own.
  std::int64_t seed = 0;             ///< Of the random orders.
};

/// How many samples an epoch of the whole job has.
[[nodiscard]] std::int64_t epoch_samples(const Sampling& sampling, std::int64_t world_size);

/// True where an epoch may have another number of samples than the training set.
[[nodiscard]] inline bool has_epochs_of_own_size(const Sampling& sampling) {
  return sampling.sampler != nullptr || !sampling.is_shared;
}

/// The order of `epoch`, from 0, of which `self` takes samples: int64 [N]. Without a sampler it is that of
/// epoch_order(), or, where nothing is shared, a random one of the rank's own. Throws what the sampler throws, and
/// InvalidJob when its order has another type or size, or a sample that the training set does not have.
[[nodiscard]] torch::Tensor order_of(const Sampling& sampling, std::int64_t epoch, const GroupRank& self);

/// The samples of `order` that `self` takes in the batch that begins at `position`, as step_samples().
[[nodiscard]] torch::Tensor batch_samples(const Sampling& sampling, const torch::Tensor& order, std::int64_t position,
                                          std::int64_t batch_size, const GroupRank& self);

}  // namespace trainyard::data
