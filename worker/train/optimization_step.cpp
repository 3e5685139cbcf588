#include "worker/train/optimization_step.hpp"

#include <torch/types.h>

namespace trainyard::train {
namespace {

void check_loss(const torch::Tensor& loss) {
  TORCH_CHECK(loss.defined() && loss.numel() == 1,
              "the training step gave no scalar loss: training_step returns one, or training_step_end makes it");
}

}  // namespace

OptimizationStep::OptimizationStep(Module& module, Optimizer& optimizer, strategy::GradientSync& gradients)
    : module_{module}, optimizer_{optimizer}, gradients_{gradients} {}

torch::Tensor OptimizationStep::run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step) {
  if (of_step.index == 0) gradients_.zero_gradients();
  const torch::Tensor loss = module_.training_step_end(module_.training_step(batch, batch_index));
  check_loss(loss);
  gradients_.begin_backward(of_step.is_last());
  (of_step.count > 1 ? loss / of_step.count : loss).backward();
  return loss.detach();
}

Result<void> OptimizationStep::finish_gradients() {
  return gradients_.finish_gradients();
}

void OptimizationStep::update() {
  optimizer_.step();
}

}  // namespace trainyard::train
