#include "worker/strategy/strategies.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "worker/strategy/adasum.hpp"
#include "worker/strategy/async_average.hpp"
#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/strategy/comm_hook.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/decentralized.hpp"
#include "worker/strategy/pod_exchange.hpp"
#include "worker/strategy/power_sgd.hpp"
#include "worker/strategy/q_adam.hpp"
#include "worker/strategy/sharded.hpp"

namespace trainyard::strategy {
namespace {

/// The strategy of one rank: its gradients stay as the backward pass leaves them.
class SingleRank final : public GradientSync {
 public:
  /// Both flags equal those of the strategy with several ranks, so that a checkpoint fits any number of ranks.
  SingleRank(NamedTensors parameters, bool keeps_parameters_equal, bool keeps_optimizer_equal)
      : parameters_{std::move(parameters)},
        keeps_parameters_equal_{keeps_parameters_equal},
        keeps_optimizer_equal_{keeps_optimizer_equal} {}

  [[nodiscard]] Result<void> synchronize_model() override { return {}; }
  void zero_gradients() override {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  }
  void begin_backward(bool /*is_last_batch*/) override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }
  [[nodiscard]] bool keeps_parameters_equal() const override { return keeps_parameters_equal_; }
  [[nodiscard]] bool keeps_optimizer_equal() const override { return keeps_optimizer_equal_; }

 private:
  NamedTensors parameters_;
  bool keeps_parameters_equal_;
  bool keeps_optimizer_equal_;
};

/// The type that gradients are rounded to. Nothing: their own.
std::optional<torch::ScalarType> sent_type(api::GradientCompression compression) {
  if (compression == api::GradientCompression::fp16) return torch::kHalf;
  if (compression == api::GradientCompression::bf16) return torch::kBFloat16;
  return std::nullopt;
}

MakeExchange bagua_exchange(const api::StrategySpec& spec) {
  switch (spec.algorithm) {
    case api::BaguaAlgorithm::gradient_allreduce:
      break;
    case api::BaguaAlgorithm::bytegrad:
      return make_byte_grad;
    case api::BaguaAlgorithm::qadam:
      return q_adam(spec.qadam_warmup_steps);
    case api::BaguaAlgorithm::decentralized:
    case api::BaguaAlgorithm::low_precision_decentralized:
    case api::BaguaAlgorithm::async:
      break;  // These exchange no gradients: make_with_own_parameters() makes them.
  }
  return make_all_reduce;
}

/// The exchange of the gradients of parameters that have `names`.
MakeExchange exchange_of(const api::StrategySpec& spec, std::vector<std::string> names) {
  switch (spec.name) {
    case api::StrategyName::ddp:
    case api::StrategyName::ddp2:
    case api::StrategyName::dp:
    case api::StrategyName::single:   // These two exchange nothing.
    case api::StrategyName::sharded:  // It has an exchange of its own.
      break;
    case api::StrategyName::horovod:
      return all_reduce({.dtype = sent_type(spec.gradient_compression),
                         .predivide_factor = spec.gradient_predivide_factor,
                         .is_mean = spec.op != api::ReductionOp::sum});
    case api::StrategyName::bagua:
      return bagua_exchange(spec);
  }
  switch (spec.gradient_compression) {
    case api::GradientCompression::none:
      break;
    case api::GradientCompression::fp16:
    case api::GradientCompression::bf16:
      return all_reduce({.dtype = sent_type(spec.gradient_compression), .predivide_factor = {}});
    case api::GradientCompression::powersgd:
      return power_sgd({.rank = spec.power_sgd.rank,
                        .start_step = spec.power_sgd.start_step,
                        .has_error_feedback = spec.power_sgd.error_feedback,
                        .has_warm_start = spec.power_sgd.warm_start},
                       std::move(names));
  }
  return make_all_reduce;
}

BucketLimits bucket_limits(const api::StrategySpec& spec) {
  constexpr std::int64_t ddp_mib = 25, bagua_mib = 10;
  switch (spec.name) {
    case api::StrategyName::ddp:
    case api::StrategyName::ddp2:
    case api::StrategyName::dp:
    case api::StrategyName::single:
    case api::StrategyName::sharded:
      break;
    case api::StrategyName::horovod:
      return {.first_bytes = spec.fusion_threshold_mib << 20, .bytes = spec.fusion_threshold_mib << 20};
    case api::StrategyName::bagua: {
      const std::int64_t bytes = spec.bucket_mib.value_or(bagua_mib) << 20;
      return {.first_bytes = bytes, .bytes = bytes};
    }
  }
  const std::int64_t bytes = spec.bucket_mib.value_or(ddp_mib) << 20;
  return {.first_bytes = std::min(BucketLimits{}.first_bytes, bytes), .bytes = bytes};
}

/// The bucket sizes that are tried with `autotune`: the powers of two from 1 to 128 MiB.
std::optional<TuningOptions> tuning_options(const api::StrategySpec& spec) {
  if (!spec.autotune) return std::nullopt;
  TuningOptions options{.plan = {}, .now = [] { return std::chrono::steady_clock::now(); }};
  for (std::int64_t mib = 1; mib <= 128; mib *= 2) {
    api::StrategySpec of_size = spec;
    (spec.name == api::StrategyName::horovod ? of_size.fusion_threshold_mib : of_size.bucket_mib.emplace()) = mib;
    options.plan.candidates.push_back(bucket_limits(of_size));
  }
  return options;
}

DdpOptions ddp_options(const api::StrategySpec& spec, WaitForWork follow, ExchangeTimeline* timeline) {
  return {.limits = bucket_limits(spec),
          .tuning = tuning_options(spec),
          .broadcasts_buffers = spec.broadcast_buffers,
          .synchronizes_batch_norm = spec.sync_batch_norm,
          .timeline = timeline,
          .exchange = [spec](std::vector<std::string> names) { return exchange_of(spec, std::move(names)); },
          .follow = std::move(follow)};
}

/// `reducer`: the group's; nullptr where an earlier optimizer's strategy has taken it.
std::unique_ptr<GradientSync> make_async(PerRankModelParts parts, std::unique_ptr<dist::HostReducer> reducer,
                                         const api::StrategySpec& spec) {
  // With several optimizers each would need an agreement of its own, and all ranks one order of the collectives.
  if (!reducer) {
    throw InvalidJob{
        "training.strategy.algorithm: is async, which trains with one optimizer, and the model configures several: "
        "name another algorithm, such as decentralized"};
  }
  return make_async_average(std::move(parts), {.reducer = std::move(reducer),
                                               .sync_interval = std::chrono::milliseconds{spec.sync_interval_ms},
                                               .warmup_steps = spec.async_warmup_steps,
                                               .limits = bucket_limits(spec)});
}

std::unique_ptr<GradientSync> make_with_own_parameters(PerRankModelParts parts, dist::Group& group,
                                                       const api::StrategySpec& spec) {
  if (api::is_async(spec)) return make_async(std::move(parts), std::move(group.averaging_reducer), spec);
  if (spec.algorithm == api::BaguaAlgorithm::low_precision_decentralized)
    return make_low_precision_decentralized(std::move(parts));
  return make_decentralized(
      std::move(parts), spec.peer_selection == api::PeerSelection::all ? PeerSelection::all : PeerSelection::shift_one);
}

void check_takes_comm_hook(const api::StrategySpec& spec) {
  const bool is_ddp = spec.name == api::StrategyName::ddp || spec.name == api::StrategyName::ddp2;
  if (is_ddp && spec.gradient_compression == api::GradientCompression::none) return;
  throw InvalidJob{
      "training.strategy: the model has a communication hook of its own, which would take the place of what the job "
      "asks for: name ddp or ddp2, without gradientCompression"};
}

}  // namespace

std::unique_ptr<GradientSync> make_gradient_sync(NamedTensors parameters, NamedTensors buffers, dist::Group& group,
                                                 WaitForWork wait, WaitForWork follow, const api::StrategySpec& spec,
                                                 ExchangeTimeline* timeline,
                                                 std::shared_ptr<c10d::CommHookInterface> comm_hook) {
  const bool is_adasum = spec.op == api::ReductionOp::adasum;
  if (group.world_size == 1) {
    return std::make_unique<SingleRank>(std::move(parameters), !has_own_parameters(spec),
                                        !is_adasum && !has_own_parameters(spec));
  }
  // The API server refuses such a job, but a launcher may start more ranks than the job says.
  if (spec.name == api::StrategyName::single) {
    throw InvalidJob{
        fmt::format("training.strategy.name: is single, which is one rank, but {} ranks were started: start one, or "
                    "name a strategy "
                    "of several ranks, such as ddp",
                    group.world_size)};
  }
  if (spec.name == api::StrategyName::dp) {
    throw InvalidJob{
        fmt::format("training.strategy.name: is dp, which is one rank, but {} ranks were started: start one, or name "
                    "ddp2, which is dp in each of several pods",
                    group.world_size)};
  }
  if (comm_hook) check_takes_comm_hook(spec);
  if (has_own_parameters(spec)) {
    return make_with_own_parameters({.parameters = std::move(parameters),
                                     .buffers = std::move(buffers),
                                     .process_group = group.process_group,
                                     .communicator = *group.communicator,
                                     .wait = wait,
                                     .follow = follow ? follow : wait,
                                     .interval = spec.communication_interval,
                                     .pods = group.pods},
                                    group, spec);
  }
  if (is_adasum) {
    return std::make_unique<AdasumSync>(std::move(parameters), std::move(buffers), group.process_group,
                                        *group.communicator, std::move(wait),
                                        ddp_options(spec, std::move(follow), timeline));
  }
  if (spec.name == api::StrategyName::sharded) {
    DdpOptions options = ddp_options(spec, std::move(follow), nullptr);
    options.shards_parameters = spec.shard_parameters;
    return std::make_unique<Sharded>(std::move(parameters), std::move(buffers), group.process_group,
                                     *group.communicator, std::move(wait), options);
  }
  DdpOptions options = ddp_options(spec, std::move(follow), timeline);
  if (comm_hook) {
    options.exchange = [hook = std::move(comm_hook)](const std::vector<std::string>&) { return by_comm_hook(hook); };
  } else if (group.pods) {
    options.exchange = [exchange = std::move(options.exchange), pods = *group.pods](std::vector<std::string> names) {
      return by_pod(exchange(std::move(names)), pods);
    };
  }
  return std::make_unique<Ddp>(std::move(parameters), std::move(buffers), group.process_group, *group.communicator,
                               std::move(wait), options);
}

}  // namespace trainyard::strategy
