#pragma once

#include <cstdint>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/observe/step_times.hpp"
#include "worker/strategy/gradient_sync.hpp"

namespace trainyard::train {

/// The arithmetic of one optimizer step: forward pass, backward pass, exchange of gradients, update. The functions are
/// called in this order.
class OptimizationStep {
 public:
  /// The arguments outlive the object.
  OptimizationStep(Module& module, Optimizer& optimizer, strategy::GradientSync& gradients, observe::StepTimer& timer);

  /// Clears the gradients and runs the module on `batch`, forward and backward. Returns the batch's loss, a scalar
  /// without history on the rank's device. Throws what the module throws.
  [[nodiscard]] torch::Tensor run(const Batch& batch, std::int64_t batch_index);
  /// Waits until the gradients are those of all ranks. Errors: those of GradientSync::finish_gradients().
  [[nodiscard]] Result<void> finish_gradients();
  /// Changes the parameters.
  void update();

 private:
  Module& module_;
  Optimizer& optimizer_;
  strategy::GradientSync& gradients_;
  observe::StepTimer& timer_;
};

}  // namespace trainyard::train
