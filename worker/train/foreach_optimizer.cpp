#include "worker/train/foreach_optimizer.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"

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

void ForeachOptimizer::shard(const std::vector<ParameterShard>& shards) {
  check(!states_, "an optimizer is cut into shards before its state is made");
  for (OptimizedParameter& parameter : parameters_) {
    const auto found =
        std::ranges::find_if(shards, [&](const auto& shard) { return shard.parameter.is_same(parameter.tensor); });
    if (found == shards.end()) {
      throw InvalidJob{
          fmt::format("training.strategy.name: sharded cannot train the parameter {}, which is not among those that "
                      "its optimizer was configured with: give NamedOptimizer::parameters all of them",
                      parameter.name)};
    }
    parameter.tensor = found->rows;
    shard_indices_[parameter.name] = static_cast<std::size_t>(found - shards.begin());
  }
}

std::optional<std::size_t> ForeachOptimizer::shard_of(const std::string& name) const {
  if (!states_) return std::nullopt;
  for (const State& state : *states_) {
    if (!state.has_rows || !name.starts_with(state.prefix)) continue;
    const auto found = shard_indices_.find(name.substr(state.prefix.size()));
    if (found != shard_indices_.end()) return found->second;
  }
  return std::nullopt;
}

Optimizer::NamedTensors ForeachOptimizer::state() {
  make_state_once();
  NamedTensors tensors;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    for (const State& state : *states_)
      tensors.emplace_back(state.prefix + parameters_[index].name, (*state.tensors)[index]);
  }
  return tensors;
}

void ForeachOptimizer::make_state_once() {
  if (!states_) states_ = make_state();
}

void ForeachOptimizer::step_all(const torch::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  make_state_once();
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
