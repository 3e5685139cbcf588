#include "worker/train/optimizers.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "worker/strategy/q_adam.hpp"
#include "worker/train/foreach_optimizer.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/tensor_groups.hpp"

namespace trainyard {
namespace train {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// 1 - beta^t for each t of `steps`.
Tensors bias_corrections(double beta, const Tensors& steps) {
  Tensors corrections = at::_foreach_pow(beta, steps);
  at::_foreach_neg_(corrections);
  at::_foreach_add_(corrections, 1.0);
  return corrections;
}

/// Adam (Kingma & Ba 2015), which adds weight decay to the gradient (L2), or AdamW (Loshchilov & Hutter 2019), which
/// decouples it.
class FusedAdam : public ForeachOptimizer {
 public:
  FusedAdam(const OptimizerSpec& spec, std::vector<OptimizedParameter> optimized)
      : ForeachOptimizer{std::move(optimized)}, spec_{spec} {}

 protected:
  std::vector<State> make_state() override {
    means_ = zeros();
    variances_ = zeros();
    steps_ = step_counts();
    return {{.prefix = "exp_avg.", .tensors = &means_},
            {.prefix = "exp_avg_sq.", .tensors = &variances_},
            {.prefix = "step.", .tensors = &steps_, .has_rows = false}};
  }

  void step_group(const Group& group) override {
    const Tensors means = group.of(means_), variances = group.of(variances_), steps = group.of(steps_);
    count(steps);
    const auto fused = [&](const auto& kernel) {
      kernel(group.parameters, group.gradients, means, variances, torch::TensorList{}, steps, group.lr, spec_.beta1,
             spec_.beta2, group.weight_decay, spec_.eps, /*amsgrad=*/false, /*maximize=*/false,
             /*grad_scale=*/std::nullopt, group.found_inf);
    };
    if (spec_.name == "adamw") {
      fused([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      fused([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    }
    uncount(steps, group);
  }

  OptimizerSpec spec_;
  Tensors means_;      // of the gradients; by parameter, like the next two
  Tensors variances_;  // uncentred
  Tensors steps_;
};

/// Adam, for which an exchange may compute the means (see strategy/q_adam.hpp).
class Adam final : public FusedAdam, public strategy::AdamWithExchangedMoments {
 public:
  using FusedAdam::FusedAdam;

  [[nodiscard]] double beta1() const override { return spec_.beta1; }
  [[nodiscard]] std::vector<AdamWithExchangedMoments::Parameter> parameters_with_moments() override {
    make_state_once();
    std::vector<AdamWithExchangedMoments::Parameter> found;
    for (std::size_t index = 0; index < parameters().size(); ++index) {
      const OptimizedParameter& parameter = parameters()[index];
      found.push_back(
          {.tensor = parameter.tensor, .first_moment = means_[index], .weight_decay = parameter.weight_decay});
    }
    return found;
  }
  void take_grad_for(Grad grad) override { grad_ = grad; }

 protected:
  void step_group(const Group& group) override {
    if (grad_ == Grad::gradient) return FusedAdam::step_group(group);
    const Tensors means = group.of(means_), steps = group.of(steps_);
    count(steps);
    // Bagua's formula: the second moments stay, and the corrections of both biases go on.
    const Tensors denominators = at::_foreach_sqrt(group.of(variances_));
    at::_foreach_div_(denominators, at::_foreach_sqrt(bias_corrections(spec_.beta2, steps)));
    at::_foreach_add_(denominators, spec_.eps);
    Tensors updates = at::_foreach_div(group.gradients, denominators);
    at::_foreach_div_(updates, bias_corrections(spec_.beta1, steps));
    Tensors next_means = group.gradients;
    if (group.found_inf) {
      const torch::Tensor is_bad = group.found_inf->gt(0);
      for (std::size_t index = 0; index < means.size(); ++index) {
        updates[index] = updates[index].masked_fill(is_bad, 0.0);
        next_means[index] = torch::where(is_bad, means[index], next_means[index]);
      }
    }
    at::_foreach_add_(group.parameters, updates, -group.lr);
    at::_foreach_copy_(means, next_means);
    ForeachOptimizer::uncount(steps, group);
  }

 private:
  Grad grad_ = Grad::gradient;
};

class FusedSgd final : public ForeachOptimizer {
 public:
  FusedSgd(const OptimizerSpec& spec, std::vector<OptimizedParameter> optimized)
      : ForeachOptimizer{std::move(optimized)}, spec_{spec} {}

 protected:
  std::vector<State> make_state() override {
    if (spec_.momentum == 0.0) return {};
    momenta_ = zeros();
    return {{.prefix = "momentum.", .tensors = &momenta_}};
  }

  void step_group(const Group& group) override {
    const Tensors momenta = momenta_.empty() ? momenta_ : group.of(momenta_);
    // On a CPU the fused kernel leaves most elements of these types as they are (pytorch/pytorch#191763).
    const torch::ScalarType type = group.parameters.front().scalar_type();
    if (group.parameters.front().is_cpu() && (type == torch::kBFloat16 || type == torch::kHalf))
      return step_on_cpu(group, momenta);
    // With momentum buffers of zero the first step equals one with is_first_step, so that checkpoints need no such
    // flag.
    at::_fused_sgd_(group.parameters, group.gradients, momenta, group.weight_decay, spec_.momentum, group.lr,
                    /*dampening=*/0.0, spec_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    /*grad_scale=*/std::nullopt, group.found_inf);
  }

 private:
  void step_on_cpu(const Group& group, const Tensors& momenta) const {
    if (group.found_inf && group.found_inf->item<float>() != 0.0F) return;
    const auto gradients = group.weight_decay == 0.0
                               ? group.gradients
                               : at::_foreach_add(group.gradients, group.parameters, group.weight_decay);
    if (momenta.empty()) return at::_foreach_add_(group.parameters, gradients, -group.lr);
    at::_foreach_mul_(momenta, spec_.momentum);
    at::_foreach_add_(momenta, gradients);
    const auto updates = spec_.nesterov ? at::_foreach_add(gradients, momenta, spec_.momentum) : momenta;
    at::_foreach_add_(group.parameters, updates, -group.lr);
  }

  OptimizerSpec spec_;
  Tensors momenta_;  // by parameter; empty without momentum
};

/// |parameter| / |update| for each parameter, or 1 where either norm is zero.
Tensors trust_ratios(const Tensors& parameters, const Tensors& updates) {
  const torch::Tensor lengths = torch::stack(norms_of(parameters));
  const torch::Tensor update_lengths = torch::stack(norms_of(updates));
  const torch::Tensor are_both = lengths.gt(0).logical_and(update_lengths.gt(0));
  return torch::where(are_both, lengths / update_lengths, torch::ones_like(lengths)).unbind();
}

/// Gives `tensors` their values of `before` where `found_inf` is 1.
void take_back(const Tensors& tensors, const Tensors& before, const torch::Tensor& found_inf) {
  const torch::Tensor is_taken_back = found_inf.gt(0);
  for (std::size_t index = 0; index < tensors.size(); ++index)
    tensors[index].copy_(torch::where(is_taken_back, before[index], tensors[index]));
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const torch::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

/// LAMB (You et al. 2020, algorithm 2, with phi(x) = x): with Adam's bias-corrected means m and v of a parameter x,
///   u = m / (sqrt(v) + eps) + weight_decay * x,   x = x - lr * |x| / |u| * u,
/// where |x| / |u| is 1 if either norm is zero. The norms are those of one parameter.
class Lamb final : public ForeachOptimizer {
 public:
  Lamb(const OptimizerSpec& spec, std::vector<OptimizedParameter> optimized)
      : ForeachOptimizer{std::move(optimized)}, spec_{spec} {}

  void shard(const std::vector<ParameterShard>& /*shards*/) override {
    throw InvalidJob{
        "training.optimizer.name: lamb cannot train with training.strategy.name sharded, because its step depends on "
        "the norm of each whole parameter: choose adam, adamw or sgd, or another strategy"};
  }

 protected:
  std::vector<State> make_state() override {
    means_ = zeros();
    squares_ = zeros();
    counts_ = step_counts();
    return {{.prefix = "exp_avg.", .tensors = &means_},
            {.prefix = "exp_avg_sq.", .tensors = &squares_},
            {.prefix = "step.", .tensors = &counts_, .has_rows = false}};
  }

  void step_group(const Group& group) override {
    const Tensors means = group.of(means_), squares = group.of(squares_), counts = group.of(counts_);
    if (!group.found_inf) return make_step(group, means, squares, counts);
    const Tensors old_parameters = copies_of(group.parameters), old_means = copies_of(means),
                  old_squares = copies_of(squares);
    make_step(group, means, squares, counts);
    take_back(group.parameters, old_parameters, *group.found_inf);
    take_back(means, old_means, *group.found_inf);
    take_back(squares, old_squares, *group.found_inf);
    uncount(counts, group);
  }

 private:
  void make_step(const Group& group, const Tensors& means, const Tensors& squares, const Tensors& counts) const {
    count(counts);
    at::_foreach_lerp_(means, group.gradients, 1.0 - spec_.beta1);
    at::_foreach_mul_(squares, spec_.beta2);
    at::_foreach_addcmul_(squares, group.gradients, group.gradients, 1.0 - spec_.beta2);
    Tensors denominators = at::_foreach_div(squares, bias_corrections(spec_.beta2, counts));
    at::_foreach_sqrt_(denominators);
    at::_foreach_add_(denominators, spec_.eps);
    Tensors updates = at::_foreach_div(means, bias_corrections(spec_.beta1, counts));
    at::_foreach_div_(updates, denominators);
    if (group.weight_decay != 0.0) at::_foreach_add_(updates, group.parameters, group.weight_decay);
    at::_foreach_mul_(updates, trust_ratios(group.parameters, updates));
    at::_foreach_add_(group.parameters, updates, -group.lr);
  }

  OptimizerSpec spec_;
  Tensors means_;    // of the gradients; by parameter, like the next two
  Tensors squares_;  // means of the squared gradients
  Tensors counts_;   // of steps
};

std::unique_ptr<Optimizer> make_lamb(const OptimizerSpec& spec, std::vector<OptimizedParameter> parameters) {
  for (const auto& one : parameters) {
    if (one.tensor.scalar_type() == torch::kHalf)
      throw InvalidJob{
          "training.optimizer.name: lamb cannot train float16 parameters, which cannot hold its means of squared "
          "gradients: choose training.precision 16-mixed, bf16-true or 32-true, or adamw"};
  }
  return std::make_unique<Lamb>(spec, std::move(parameters));
}

std::unique_ptr<Optimizer> make(const OptimizerSpec& spec, std::vector<OptimizedParameter> parameters) {
  if (spec.nesterov && (spec.name != "sgd" || spec.momentum == 0.0))
    throw InvalidJob{"training.optimizer.nesterov: is only for sgd with momentum"};
  if (spec.name == "adam") return std::make_unique<Adam>(spec, std::move(parameters));
  if (spec.name == "adamw") return std::make_unique<FusedAdam>(spec, std::move(parameters));
  if (spec.name == "sgd") return std::make_unique<FusedSgd>(spec, std::move(parameters));
  if (spec.name == "lamb") return make_lamb(spec, std::move(parameters));
  throw InvalidJob{
      fmt::format("training.optimizer.name: no optimizer '{}' here (there is: adam, adamw, lamb, sgd)", spec.name)};
}

}  // namespace

OptimizerSpec public_spec(const api::OptimizerSpec& spec) {
  return {.name = std::string{api::name_of(spec.name)},
          .lr = spec.lr,
          .momentum = spec.momentum,
          .nesterov = spec.nesterov,
          .weight_decay = spec.weight_decay,
          .beta1 = spec.beta1,
          .beta2 = spec.beta2,
          .eps = spec.eps};
}

std::unique_ptr<Optimizer> open_optimizer(Module& module, const api::OptimizerSpec& spec) {
  const ProgramCall call{"configure_optimizers()"};
  auto optimizer = module.configure_optimizers(public_spec(spec));
  if (optimizer == nullptr) throw InvalidJob{"the model's configure_optimizers() returned no optimizer"};
  return optimizer;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, const Optimizer::NamedTensors& parameters) {
  std::vector<OptimizedParameter> optimized;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.requires_grad())
      optimized.push_back({.name = name, .tensor = tensor, .lr = spec.lr, .weight_decay = spec.weight_decay});
  }
  return make(spec, std::move(optimized));
}

}  // namespace train

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, const std::vector<ParameterGroup>& groups,
                                          const torch::nn::Module& module) {
  std::map<void*, std::string> names;
  std::set<void*> seen;
  for (const auto& [name, parameter] : train::named_parameters(module)) names[parameter.unsafeGetTensorImpl()] = name;
  std::vector<train::OptimizedParameter> optimized;
  for (const ParameterGroup& group : groups) {
    for (const torch::Tensor& parameter : group.parameters) {
      const auto name = names.find(parameter.unsafeGetTensorImpl());
      if (name == names.end()) throw InvalidJob{"the optimizer has a parameter that the model has not registered"};
      if (!seen.insert(name->first).second)
        throw InvalidJob{
            fmt::format("the optimizer has the parameter {} twice: give it each tensor once", name->second)};
      if (!parameter.requires_grad()) continue;
      optimized.push_back({.name = name->second,
                           .tensor = parameter,
                           .lr = group.lr.value_or(spec.lr),
                           .weight_decay = group.weight_decay.value_or(spec.weight_decay)});
    }
  }
  return train::make(spec, std::move(optimized));
}

NamedOptimizer make_named_optimizer(std::string name, const OptimizerSpec& spec,
                                    const std::vector<ParameterGroup>& groups, const torch::nn::Module& module) {
  NamedOptimizer named{.name = std::move(name), .optimizer = make_optimizer(spec, groups, module), .parameters = {}};
  for (const ParameterGroup& group : groups)
    named.parameters.insert(named.parameters.end(), group.parameters.begin(), group.parameters.end());
  return named;
}

struct FrozenParameters::Frozen {
  torch::Tensor parameter;
  torch::autograd::Edge history;  // of the copy that a replica's parameter is
};

FrozenParameters::FrozenParameters(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    Frozen& frozen = frozen_.emplace_back(Frozen{.parameter = parameter, .history = {}});
    if (!parameter.is_leaf()) {
      frozen.history = torch::autograd::impl::gradient_edge(parameter);
      torch::autograd::impl::set_gradient_edge(parameter, {});
    }
    parameter.set_requires_grad(false);
  }
}

FrozenParameters::~FrozenParameters() {
  for (const auto& [parameter, history] : frozen_) {
    parameter.set_requires_grad(true);
    if (history.is_valid()) torch::autograd::impl::set_gradient_edge(parameter, history);
  }
}

}  // namespace trainyard
