#include "worker/train/loss_scaler.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include "worker/train/tensor_groups.hpp"

namespace trainyard::train {

LossScaler::LossScaler(torch::Device device, const LossScaling& options)
    : options_{options},
      scale_{torch::full({}, options.first, torch::dtype(torch::kFloat).device(device))},
      growth_tracker_{torch::zeros({}, torch::dtype(torch::kInt32).device(device))},
      found_inf_{torch::zeros({}, torch::dtype(torch::kFloat).device(device))} {}

void LossScaler::unscale(const std::vector<torch::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  found_inf_.zero_();
  // In double, because the reciprocal of a large scale may be 0 in float on some devices.
  const torch::Tensor inverse = scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
  for (const auto& group : by_type(gradients)) {
    at::_amp_foreach_non_finite_check_and_unscale_(group, found_inf_, inverse);
  }
}

void LossScaler::update(const torch::Tensor& is_bad_loss) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor scale = scale_.clone();
  const torch::Tensor growth_tracker = growth_tracker_.clone();
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth, options_.backoff,
                         options_.growth_interval);
  if (!is_bad_loss.defined()) return;
  const torch::Tensor is_kept = is_bad_loss.gt(0);
  scale_.copy_(torch::where(is_kept, scale, scale_));
  growth_tracker_.copy_(torch::where(is_kept, growth_tracker, growth_tracker_));
}

}  // namespace trainyard::train
