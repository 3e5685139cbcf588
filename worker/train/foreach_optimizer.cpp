#include "worker/train/foreach_optimizer.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace trainyard::train {
namespace {

bool is_alike(const OptimizedParameter& a, const OptimizedParameter& b) {
  return a.tensor.dtype() == b.tensor.dtype() && a.tensor.device() == b.tensor.device() && a.lr == b.lr &&
         a.weight_decay == b.weight_decay;
}

}  // namespace

std::vector<torch::Tensor> ForeachOptimizer::Group::of(const std::vector<torch::Tensor>& tensors) const {
  std::vector<torch::Tensor> found;
  for (const std::size_t index : indices) found.push_back(tensors[index]);
  return found;
}

std::vector<torch::Tensor> ForeachOptimizer::zeros() const {
  std::vector<torch::Tensor> tensors;
  for (const OptimizedParameter& parameter : parameters_)
    tensors.push_back(torch::zeros_like(parameter.tensor, torch::requires_grad(false)));
  return tensors;
}

std::vector<torch::Tensor> ForeachOptimizer::step_counts() const {
  std::vector<torch::Tensor> tensors;
  for (const OptimizedParameter& parameter : parameters_)
    tensors.push_back(torch::zeros({}, torch::dtype(torch::kFloat).device(parameter.tensor.device())));
  return tensors;
}

void ForeachOptimizer::uncount(const std::vector<torch::Tensor>& counts, const Group& group) {
  if (group.found_inf) at::_foreach_sub_(counts, std::vector<torch::Tensor>(counts.size(), *group.found_inf));
}

void ForeachOptimizer::step_all(const torch::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  std::vector<Group> groups;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const OptimizedParameter& parameter = parameters_[index];
    if (!parameter.tensor.grad().defined()) continue;
    auto group = std::ranges::find_if(
        groups, [&](const Group& one) { return is_alike(parameters_[one.indices.front()], parameter); });
    if (group == groups.end()) {
      groups.push_back({.indices = {},
                        .parameters = {},
                        .gradients = {},
                        .lr = parameter.lr * lr_factor_,
                        .weight_decay = parameter.weight_decay,
                        .found_inf = found_inf.defined() ? std::optional{found_inf} : std::nullopt});
      group = std::prev(groups.end());
    }
    group->indices.push_back(index);
    group->parameters.push_back(parameter.tensor);
    group->gradients.push_back(parameter.tensor.grad());
  }
  for (const Group& group : groups) step_group(group);
}

}  // namespace trainyard::train
