#include "worker/train/lamb.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "include/trainyard/options.hpp"
#include "worker/train/tensor_groups.hpp"

namespace trainyard::train {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// 1 - decay^count for each count.
Tensors bias_corrections(double decay, const Tensors& counts) {
  Tensors corrections = at::_foreach_pow(decay, counts);
  at::_foreach_mul_(corrections, -1.0);
  at::_foreach_add_(corrections, 1.0);
  return corrections;
}

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

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerSpec& spec, std::vector<OptimizedParameter> parameters) {
  for (const auto& one : parameters) {
    if (one.tensor.scalar_type() == torch::kHalf)
      throw InvalidJob{
          "training.optimizer.name: lamb cannot train float16 parameters, which cannot hold its means of squared "
          "gradients: choose training.precision 16-mixed, bf16-true or 32-true, or adamw"};
  }
  return std::make_unique<Lamb>(spec, std::move(parameters));
}

}  // namespace trainyard::train
