#include "worker/train/optimizers.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {
namespace {

Optimizer::NamedTensors that_need_gradients(const Optimizer::NamedTensors& parameters) {
  Optimizer::NamedTensors found;
  for (const auto& parameter : parameters) {
    if (parameter.second.requires_grad()) found.push_back(parameter);
  }
  return found;
}

/// Indices of the parameters that have a gradient, in groups of one dtype and one device: a fused kernel takes no
/// others together.
std::vector<std::vector<std::size_t>> groups_with_gradients(const Optimizer::NamedTensors& parameters) {
  std::vector<std::vector<std::size_t>> groups;
  const auto is_alike = [&](std::size_t left, std::size_t right) {
    const torch::Tensor& a = parameters[left].second;
    const torch::Tensor& b = parameters[right].second;
    return a.dtype() == b.dtype() && a.device() == b.device();
  };
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (!parameters[index].second.grad().defined()) continue;
    const auto group = std::ranges::find_if(groups, [&](const auto& one) { return is_alike(one.front(), index); });
    if (group == groups.end()) {
      groups.push_back({index});
    } else {
      group->push_back(index);
    }
  }
  return groups;
}

/// Adam (Kingma & Ba 2015), which adds weight decay to the gradient (L2), or AdamW (Loshchilov & Hutter 2019), which
/// decouples it.
class FusedAdam final : public Optimizer {
 public:
  FusedAdam(const OptimizerSpec& spec, NamedTensors parameters) : spec_{spec}, parameters_{std::move(parameters)} {
    for (const auto& [name, parameter] : parameters_) {
      means_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
      variances_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
      steps_.push_back(torch::zeros({}, torch::dtype(torch::kFloat).device(parameter.device())));
    }
  }

  void step() override {
    const torch::NoGradGuard no_grad;
    for (const auto& group : groups_with_gradients(parameters_)) step(group);
  }

  [[nodiscard]] NamedTensors state() override {
    NamedTensors tensors;
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      const std::string& name = parameters_[index].first;
      tensors.emplace_back("exp_avg." + name, means_[index]);
      tensors.emplace_back("exp_avg_sq." + name, variances_[index]);
      tensors.emplace_back("step." + name, steps_[index]);
    }
    return tensors;
  }

 private:
  void step(const std::vector<std::size_t>& group) {
    std::vector<torch::Tensor> parameters, gradients, means, variances, steps;
    for (const std::size_t index : group) {
      const torch::Tensor& parameter = parameters_[index].second;
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
      means.push_back(means_[index]);
      variances.push_back(variances_[index]);
      steps.push_back(steps_[index]);
    }
    at::_foreach_add_(steps, 1);
    const auto fused = [&](const auto& kernel) {
      kernel(parameters, gradients, means, variances, torch::TensorList{}, steps, spec_.lr, spec_.beta1, spec_.beta2,
             spec_.weight_decay, spec_.eps, /*amsgrad=*/false, /*maximize=*/false);
    };
    if (spec_.name == "adamw") {
      fused([](auto&&... arguments) { at::_fused_adamw_(arguments...); });
    } else {
      fused([](auto&&... arguments) { at::_fused_adam_(arguments...); });
    }
  }

  OptimizerSpec spec_;
  NamedTensors parameters_;
  std::vector<torch::Tensor> means_;      // of the gradients; by parameter, like the next two
  std::vector<torch::Tensor> variances_;  // uncentred
  std::vector<torch::Tensor> steps_;
};

class FusedSgd final : public Optimizer {
 public:
  FusedSgd(const OptimizerSpec& spec, NamedTensors parameters) : spec_{spec}, parameters_{std::move(parameters)} {
    if (spec_.momentum == 0.0) return;
    for (const auto& [name, parameter] : parameters_) {
      momenta_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    }
  }

  void step() override {
    const torch::NoGradGuard no_grad;
    for (const auto& group : groups_with_gradients(parameters_)) step(group);
  }

  [[nodiscard]] NamedTensors state() override {
    NamedTensors tensors;
    for (std::size_t index = 0; index < momenta_.size(); ++index) {
      tensors.emplace_back("momentum." + parameters_[index].first, momenta_[index]);
    }
    return tensors;
  }

 private:
  void step(const std::vector<std::size_t>& group) {
    std::vector<torch::Tensor> parameters, gradients, momenta;
    for (const std::size_t index : group) {
      const torch::Tensor& parameter = parameters_[index].second;
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
      if (!momenta_.empty()) momenta.push_back(momenta_[index]);
    }
    // With momentum buffers of zero the first step equals one with is_first_step, so that checkpoints need no such
    // flag.
    at::_fused_sgd_(parameters, gradients, momenta, spec_.weight_decay, spec_.momentum, spec_.lr, /*dampening=*/0.0,
                    /*nesterov=*/false,
                    /*maximize=*/false, /*is_first_step=*/false);
  }

  OptimizerSpec spec_;
  NamedTensors parameters_;
  std::vector<torch::Tensor> momenta_;  // by parameter; empty without momentum
};

}  // namespace

std::unique_ptr<Optimizer> open_optimizer(Module& module, const api::OptimizerSpec& spec) {
  auto optimizer = module.configure_optimizers({.name = std::string{api::name_of(spec.name)},
                                                .lr = spec.lr,
                                                .momentum = spec.momentum,
                                                .weight_decay = spec.weight_decay,
                                                .beta1 = spec.beta1,
                                                .beta2 = spec.beta2,
                                                .eps = spec.eps});
  if (optimizer == nullptr) throw InvalidJob{"the model's configure_optimizers() returned no optimizer"};
  return optimizer;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, const Optimizer::NamedTensors& parameters) {
  if (spec.name == "adam" || spec.name == "adamw")
    return std::make_unique<FusedAdam>(spec, that_need_gradients(parameters));
  if (spec.name == "sgd") return std::make_unique<FusedSgd>(spec, that_need_gradients(parameters));
  throw InvalidJob{
      fmt::format("training.optimizer.name: no optimizer '{}' here (there is: adam, adamw, sgd)", spec.name)};
}

}  // namespace trainyard::train
