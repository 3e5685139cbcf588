#include "worker/train/optimization_step.hpp"

#include <torch/types.h>

namespace trainyard::train {
namespace {

void check_loss(const torch::Tensor& loss) {
  TORCH_CHECK(loss.defined() && loss.numel() == 1,
              "the training step gave no scalar loss: training_step returns one, or training_step_end makes it");
}

}  // namespace

OptimizationStep::OptimizationStep(Module& module, Optimizer& optimizer, strategy::GradientSync& gradients,
                                   observe::StepTimer& timer)
    : module_{module}, optimizer_{optimizer}, gradients_{gradients}, timer_{timer} {}

torch::Tensor OptimizationStep::run(const Batch& batch, std::int64_t batch_index) {
  gradients_.zero_gradients();
  const torch::Tensor loss = module_.training_step_end(module_.training_step(batch, batch_index));
  check_loss(loss);
  timer_.end(observe::StepPart::forward);
  gradients_.begin_backward();
  loss.backward();
  timer_.end(observe::StepPart::backward);
  return loss.detach();
}

Result<void> OptimizationStep::finish_gradients() {
  return gradients_.finish_gradients();
}

void OptimizationStep::update() {
  optimizer_.step();
  timer_.end(observe::StepPart::optimizer);
}

}  // namespace trainyard::train
