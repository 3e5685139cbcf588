#pragma once

#include <torch/types.h>

#include <vector>

#include "api/training_spec.hpp"

namespace trainyard::train {

/// Clips `gradients`, all on one device, in place. Returns their common 2-norm before that: a float or double scalar on
/// their device, zero without gradients. Never waits for the device. Formulas: torch.nn.utils.clip_grad_norm_, whose
/// factor is norm / (total + 1e-6) and at most 1, and clip_grad_value_.
[[nodiscard]] torch::Tensor clip_gradients(const api::GradientClipSpec& clip,
                                           const std::vector<torch::Tensor>& gradients);

}  // namespace trainyard::train
