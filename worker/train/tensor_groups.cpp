#include "worker/train/tensor_groups.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <optional>

namespace trainyard::train {

std::vector<std::vector<torch::Tensor>> by_type(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::vector<torch::Tensor>> groups;
  for (const torch::Tensor& tensor : tensors) {
    const auto group = std::ranges::find_if(
        groups, [&](const auto& one) { return one.front().scalar_type() == tensor.scalar_type(); });
    if (group == groups.end()) {
      groups.push_back({tensor});
    } else {
      group->push_back(tensor);
    }
  }
  return groups;
}

std::vector<torch::Tensor> norms_of(const std::vector<torch::Tensor>& group) {
  const bool is_short = at::isReducedFloatingType(group.front().scalar_type());
  return at::_foreach_norm(group, 2, is_short ? std::optional{torch::kFloat} : std::nullopt);
}

}  // namespace trainyard::train
