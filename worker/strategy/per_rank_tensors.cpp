#include "worker/strategy/per_rank_tensors.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace trainyard::strategy {

PerRankTensors::PerRankTensors(const NamedTensors& tensors, std::string kind)
    : kind_{std::move(kind)}, is_saved_{torch::zeros({1}, torch::kUInt8)} {
  for (const auto& [name, tensor] : tensors)
    kept_.push_back({.name = name, .tensor = tensor.detach(), .copy = tensor.detach().clone()});
}

void PerRankTensors::before_save() {
  const torch::NoGradGuard no_grad;
  for (Kept& kept : kept_) kept.copy.copy_(kept.tensor);
  is_saved_.fill_(1);
}

void PerRankTensors::after_restore() {
  const torch::NoGradGuard no_grad;
  if (is_saved_.item<bool>()) {
    for (Kept& kept : kept_) kept.tensor.copy_(kept.copy);
  }
}

NamedTensors PerRankTensors::state() const {
  NamedTensors state{{fmt::format("has_{}s", kind_), is_saved_}};
  for (const Kept& kept : kept_) state.emplace_back(fmt::format("{}.{}", kind_, kept.name), kept.copy);
  return state;
}

}  // namespace trainyard::strategy
