#include "worker/train/ema.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "worker/train/tensor_groups.hpp"

namespace trainyard::train {
namespace {

/// A 16-bit type would round each small step of an average away.
torch::Tensor widened(const torch::Tensor& parameter) {
  return at::isReducedFloatingType(parameter.scalar_type()) ? parameter.to(torch::kFloat) : parameter;
}

}  // namespace

Ema::Ema(const NamedTensors& parameters, double decay, std::map<std::string, checkpoint::Shard> shards)
    : decay_{decay}, shards_{std::move(shards)} {
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.is_floating_point()) continue;
    names_.push_back(name);
    parameters_.push_back(parameter.detach());
    averages_.push_back(widened(parameter.detach()).clone());
  }
}

void Ema::reset() {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < averages_.size(); ++index) averages_[index].copy_(parameters_[index]);
}

void Ema::update() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& parameter : parameters_) parameters.push_back(widened(parameter));
  const auto averages = by_type(averages_);
  const auto now = by_type(parameters);  // In the same groups, as each has its average's type.
  for (std::size_t group = 0; group < averages.size(); ++group)
    at::_foreach_lerp_(averages[group], now[group], 1.0 - decay_);
}

void Ema::with_average(const std::function<void()>& use) {
  std::vector<torch::Tensor> own;
  for (const torch::Tensor& parameter : parameters_) own.push_back(parameter.clone());
  set_parameters(averages_);
  try {
    use();
  } catch (...) {
    set_parameters(own);
    throw;
  }
  set_parameters(own);
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
    if (const auto shard = shards_.find(name); shard != shards_.end()) {
      entries.back().placement = checkpoint::Placement::sharded;
      entries.back().shard = shard->second;
    }
  }
  return entries;
}

void Ema::set_parameters(const std::vector<torch::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (std::size_t index = 0; index < values.size(); ++index) parameters_[index].copy_(values[index]);
}

std::optional<Ema> make_ema(const std::optional<api::EmaSpec>& spec, const Module& module,
                            const std::vector<OptimizerTurn>& turns) {
  if (!spec) return std::nullopt;
  NamedTensors kept = named_parameters(module);
  const auto rows = rows_of_parameters(turns);
  std::map<std::string, checkpoint::Shard> shards;
  for (auto& [name, tensor] : kept) {
    const auto found = rows.find(name);
    if (found == rows.end()) continue;
    tensor = found->second.tensor;
    shards[name] = found->second.shard;
  }
  return std::optional<Ema>{std::in_place, kept, spec->decay, std::move(shards)};
}

}  // namespace trainyard::train
