#include "worker/train/gradient_clip.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include "worker/train/by_type.hpp"

namespace trainyard::train {

torch::Tensor norm_of(const std::vector<torch::Tensor>& gradients) {
  if (gradients.empty()) return torch::zeros({});
  const torch::NoGradGuard no_grad;
  const auto groups = by_type(gradients);
  std::vector<torch::Tensor> norms;
  for (const auto& group : groups) {
    for (const torch::Tensor& norm : norms_of(group)) norms.push_back(norm);
  }
  if (groups.size() > 1) {
    for (torch::Tensor& norm : norms) norm = norm.to(torch::kDouble);
  }
  return torch::linalg_vector_norm(torch::stack(norms));
}

void clip_gradients(const api::GradientClipSpec& clip, const torch::Tensor& norm,
                    const std::vector<torch::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  for (const auto& group : by_type(gradients)) {
    if (clip.norm) {
      const torch::Tensor factor = (*clip.norm / (norm + 1e-6)).clamp_max(1.0);
      at::_foreach_mul_(group, factor.to(group.front().scalar_type()));
    } else {
      at::_foreach_clamp_min_(group, -*clip.value);
      at::_foreach_clamp_max_(group, *clip.value);
    }
  }
}

}  // namespace trainyard::train
