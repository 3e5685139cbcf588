#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/data/dataset.hpp"
#include "worker/data/sampler.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/module.hpp"

namespace trainyard::train {

/// What goes on around each round of an evaluation. There are as many rounds on every rank, though in the last one some
/// may have no samples left.
struct EvaluationRounds {
  std::function<void()> begin;
  std::function<Result<bool>()> finish;  ///< Whether to go on, the same on every rank.
};

struct EvaluationOptions {
  std::int64_t batch_size = 1;
  torch::Device device = torch::kCPU;  ///< The module's, to which batches are moved.
};

/// What the module's validation_step logs over all of `dataset`: every sample exactly once, shared out over the ranks,
/// a batch at a time. Afterwards each part of the module is in the mode that it was in before; its parameters, buffers
/// and the random generators stay as they are. Nothing when a round said not to go on. Collective; errors of the
/// communicator and of the rounds.
[[nodiscard]] Result<std::optional<observe::MetricValues>> evaluate(Module& module, const Dataset& dataset,
                                                                    const EvaluationOptions& options,
                                                                    checkpoint::Communicator& communicator,
                                                                    const EvaluationRounds& rounds);

}  // namespace trainyard::train
