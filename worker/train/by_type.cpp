#include "worker/train/by_type.hpp"

#include <algorithm>

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

}  // namespace trainyard::train
