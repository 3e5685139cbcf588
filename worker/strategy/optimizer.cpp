#include "include/trainyard/optimizer.hpp"

#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"

// Strategies have optimizers of their own, and so these functions are in their library.
namespace trainyard {

void Optimizer::step_unless(const torch::Tensor& found_inf) {
  if (found_inf.item<float>() == 0.0F) step();
}

void Optimizer::shard(const std::vector<ParameterShard>& /*shards*/) {
  throw InvalidJob{
      "training.strategy.name: sharded cannot train with the model's own optimizer, which may need whole parameters: "
      "override trainyard::Optimizer::shard() in it, take make_optimizer()'s adam, adamw or sgd, or choose another "
      "strategy"};
}

std::optional<std::size_t> Optimizer::shard_of(const std::string& /*name*/) const {
  return std::nullopt;
}

void Optimizer::set_lr_factor(double /*factor*/) {
  throw InvalidJob{
      "the model's own optimizer does not follow training.lrSchedule and optimizer.lrScaling: override "
      "trainyard::Optimizer::set_lr_factor() in it, or leave both out of the job"};
}

}  // namespace trainyard
