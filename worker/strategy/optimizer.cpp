#include "include/trainyard/optimizer.hpp"

#include <torch/types.h>

#include "include/trainyard/options.hpp"

namespace trainyard {

void Optimizer::step_unless(const torch::Tensor& found_inf) {
  if (found_inf.item<float>() == 0.0F) step();
}

void Optimizer::set_lr_factor(double /*factor*/) {
  throw InvalidJob{
      "the model's own optimizer does not follow training.lrSchedule and optimizer.lrScaling: override "
      "trainyard::Optimizer::set_lr_factor() in it, or leave both out of the job"};
}

}  // namespace trainyard
