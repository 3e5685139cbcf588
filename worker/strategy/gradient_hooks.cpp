#include "worker/strategy/gradient_hooks.hpp"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <utility>

namespace trainyard::strategy {

GradientHooks::GradientHooks(const std::vector<torch::Tensor>& parameters,
                             const std::function<void(std::size_t)>& take) {
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[index]);
    const std::uintptr_t key = accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [take, index](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list& /*inputs*/) {
          take(index);
          return outputs;
        }));
    hooks_.push_back({.accumulator = std::move(accumulator), .key = key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

}  // namespace trainyard::strategy
