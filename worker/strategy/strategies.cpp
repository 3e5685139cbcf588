#include "worker/strategy/strategies.hpp"

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/power_sgd.hpp"

namespace trainyard::strategy {
namespace {

/// The strategy of one rank: its gradients stay as the backward pass leaves them.
class SingleRank final : public GradientSync {
 public:
  explicit SingleRank(NamedTensors parameters) : parameters_{std::move(parameters)} {}

  [[nodiscard]] Result<void> synchronize_model() override { return {}; }
  void zero_gradients() override {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  void begin_backward(bool /*is_last_batch*/) override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }

 private:
  NamedTensors parameters_;
};

/// The exchange of the gradients of parameters that have `names`.
MakeExchange exchange_of(const api::StrategySpec& spec, std::vector<std::string> names) {
  switch (spec.gradient_compression) {
    case api::GradientCompression::none:
      break;
    case api::GradientCompression::fp16:
      return rounded_all_reduce(torch::kHalf);
    case api::GradientCompression::bf16:
      return rounded_all_reduce(torch::kBFloat16);
    case api::GradientCompression::powersgd:
      return power_sgd({.rank = spec.power_sgd.rank,
                        .start_step = spec.power_sgd.start_step,
                        .has_error_feedback = spec.power_sgd.error_feedback,
                        .has_warm_start = spec.power_sgd.warm_start},
                       std::move(names));
  }
  return make_all_reduce;
}

DdpOptions ddp_options(const api::StrategySpec& spec, WaitForWork follow) {
  const std::int64_t bucket_bytes = spec.bucket_mib << 20;
  return {.limits = {.bytes = bucket_bytes},
          .broadcasts_buffers = spec.broadcast_buffers,
          .synchronizes_batch_norm = spec.sync_batch_norm,
          .exchange = [spec](std::vector<std::string> names) { return exchange_of(spec, std::move(names)); },
          .follow = std::move(follow)};
}

}  // namespace

std::unique_ptr<GradientSync> make_gradient_sync(NamedTensors parameters, NamedTensors buffers, dist::Group& group,
                                                 WaitForWork wait, WaitForWork follow, const api::StrategySpec& spec) {
  if (group.world_size == 1) return std::make_unique<SingleRank>(std::move(parameters));
  return std::make_unique<Ddp>(std::move(parameters), std::move(buffers), group.process_group, *group.communicator,
                               std::move(wait), ddp_options(spec, std::move(follow)));
}

}  // namespace trainyard::strategy
