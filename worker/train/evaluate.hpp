#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/data/sampling.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/precision.hpp"

namespace trainyard::train {

/// Callbacks around each round of an evaluation. All ranks have equally many rounds; in the last one a rank may have no
/// samples.
struct EvaluationRounds {
  std::function<void()> begin;
  std::function<Result<bool>()> finish;  ///< True: go on. Equal on all ranks.
  /// Calls the step, in each round. A rank without samples has a step that does nothing.
  std::function<Result<void>(const std::function<void()>& step)> run_step = [](const std::function<void()>& step) {
    step();
    return Result<void>{};
  };
  std::function<Result<void>()> before_reading = [] {
    return Result<void>{};
  };  ///< Called after the rounds, before values are read from the device.
};

struct EvaluationOptions {
  std::int64_t batch_size = 1;
  torch::Device device = torch::kCPU;  ///< The module's device, to which batches are moved.
  std::int64_t loader_threads = 0;     ///< Threads that gather batches ahead.
  NumberFormat format{};               ///< Format of batches, and of the module's arithmetic.
  /// Called for each batch. Not set: the module's validation_step.
  std::function<StepOutput(const Batch& batch, std::int64_t batch_index)> step{};
  std::string_view function = "validation_step()";  ///< Name of the function that `step` calls, for messages.
  /// Called with what the step has returned. Not set: the module's validation_step_end.
  std::function<void(StepOutput output)> step_end{};
  std::string_view end_function = "validation_step_end()";  ///< As `function`, of `step_end`.
};

/// The metrics that the module logs in `options.step` and `options.step_end` over all of `dataset`: each sample exactly
/// once, divided among the ranks, a batch at a time. Leaves the module's modes, parameters, buffers and the random
/// generators unchanged. Nothing when a round's finish() returned false. Collective; errors of the communicator and of
/// the rounds.
[[nodiscard]] Result<std::optional<observe::MetricValues>> evaluate(Module& module, const Dataset& dataset,
                                                                    const EvaluationOptions& options,
                                                                    checkpoint::Communicator& communicator,
                                                                    const EvaluationRounds& rounds);

}  // namespace trainyard::train
