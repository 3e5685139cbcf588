#pragma once

#include <torch/types.h>

#include <vector>

#include "api/training_spec.hpp"

namespace trainyard::train {

/// The common 2-norm of `gradients`, all on one device: a float or double scalar on their device, and zero on the host
/// without gradients. Never waits for the device.
[[nodiscard]] torch::Tensor norm_of(const std::vector<torch::Tensor>& gradients);

/// Clips `gradients`, all on one device, in place. `norm`: that of all gradients together, which may be more. Never
/// waits for the device. Formulas: torch.nn.utils.clip_grad_norm_, whose factor is clip.norm / (norm + 1e-6) and at
/// most 1, and clip_grad_value_.
void clip_gradients(const api::GradientClipSpec& clip, const torch::Tensor& norm,
                    const std::vector<torch::Tensor>& gradients);

}  // namespace trainyard::train
