#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/strategy/gradient_sync.hpp"

namespace trainyard::train {

/// The place of a batch among those of one optimizer step.
struct BatchOfStep {
  std::int64_t index = 0;
  std::int64_t count = 1;
  [[nodiscard]] bool is_last() const { return index + 1 == count; }
};

/// The arithmetic of one optimizer step: forward pass and backward pass of each batch, exchange of gradients, update.
/// The functions are called in this order.
class OptimizationStep {
 public:
  /// The arguments outlive the object.
  OptimizationStep(Module& module, Optimizer& optimizer, strategy::GradientSync& gradients);

  /// Runs the module on `batch`, forward and backward. The gradient is the mean of the batches' of the step. Returns
  /// the batch's loss, a scalar without history on the rank's device. Throws what the module throws.
  [[nodiscard]] torch::Tensor run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step = {});
  /// Waits until the gradients are those of all ranks. Errors: those of GradientSync::finish_gradients().
  [[nodiscard]] Result<void> finish_gradients();
  /// Changes the parameters.
  void update();

 private:
  Module& module_;
  Optimizer& optimizer_;
  strategy::GradientSync& gradients_;
};

}  // namespace trainyard::train
