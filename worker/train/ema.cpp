#include "worker/train/ema.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "worker/train/by_type.hpp"

namespace trainyard::train {

Ema::Ema(const NamedTensors& parameters, double decay) : decay_{decay} {
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.is_floating_point()) continue;
    names_.push_back(name);
    parameters_.push_back(parameter.detach());
    averages_.push_back(parameter.detach().clone());
  }
}

void Ema::reset() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < averages_.size(); ++index) averages_[index].copy_(parameters_[index]);
}

void Ema::update() {
  const torch::NoGradGuard no_grad;
  const auto averages = by_type(averages_);
  const auto parameters = by_type(parameters_);  // In the same groups, as each average has its parameter's type.
  for (std::size_t group = 0; group < averages.size(); ++group)
    at::_foreach_lerp_(averages[group], parameters[group], 1.0 - decay_);
}

void Ema::with_average(const std::function<void()>& use) {
  exchange();
  try {
    use();
  } catch (...) {
    exchange();
    throw;
  }
  exchange();
}

NamedTensors Ema::state() const {
  NamedTensors state;
  for (std::size_t index = 0; index < names_.size(); ++index) state.emplace_back(names_[index], averages_[index]);
  return state;
}

std::vector<checkpoint::Entry> Ema::entries() const {
  std::vector<checkpoint::Entry> entries;
  for (const auto& [name, tensor] : state()) {
    entries.push_back({.name = fmt::format("{}{}", checkpoint::ema_prefix, name),
                       .placement = checkpoint::Placement::replicated,
                       .tensor = tensor,
                       .is_steady = true});
  }
  return entries;
}

void Ema::exchange() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < averages_.size(); ++index) {
    const torch::Tensor own = parameters_[index].clone();
    parameters_[index].copy_(averages_[index]);
    averages_[index].copy_(own);
  }
}

}  // namespace trainyard::train
