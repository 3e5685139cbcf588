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
#include "worker/strategy/strategy_parts.hpp"

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

BucketLimits bucket_limits(const api::StrategySpec& spec) {
  constexpr std::int64_t bagua_mib = 10;
  if (spec.name == api::StrategyName::horovod)
    return {.first_bytes = spec.fusion_threshold_mib << 20, .bytes = spec.fusion_threshold_mib << 20};
  if (spec.name == api::StrategyName::bagua) {
    const std::int64_t bytes = spec.bucket_mib.value_or(bagua_mib) << 20;
    return {.first_bytes = bytes, .bytes = bytes};
  }
  const std::int64_t bytes = spec.bucket_mib.value_or(api::ddp_bucket_mib) << 20;
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

DdpOptions ddp_options(const StrategyParts& parts) {
  return {.limits = bucket_limits(parts.spec),
          .tuning = tuning_options(parts.spec),
          .broadcasts_buffers = parts.spec.broadcast_buffers,
          .synchronizes_batch_norm = parts.spec.sync_batch_norm,
          .timeline = parts.timeline,
          .exchange = {},
          .follow = parts.follow};
}

using ExchangeOfNames = decltype(DdpOptions::exchange);

ExchangeOfNames of_any_names(MakeExchange exchange) {
  return [exchange = std::move(exchange)](const std::vector<std::string>&) { return exchange; };
}

/// Ddp with `exchange`. Where the group has pods, the first ranks of the pods make this exchange, unless the model has
/// a communication hook.
std::unique_ptr<GradientSync> make_with_buckets(StrategyParts parts, ExchangeOfNames exchange) {
  DdpOptions options = ddp_options(parts);
  options.exchange = std::move(exchange);
  if (parts.group.pods && !parts.comm_hook) {
    options.exchange = [inner = std::move(options.exchange), pods = *parts.group.pods](std::vector<std::string> names) {
      return by_pod(inner(std::move(names)), pods);
    };
  }
  return std::make_unique<Ddp>(std::move(parts.parameters), std::move(parts.buffers), parts.group.process_group,
                               *parts.group.communicator, std::move(parts.wait), options);
}

/// The exchange of the gradients of parameters that have `names`.
MakeExchange compressed_exchange(const api::StrategySpec& spec, std::vector<std::string> names) {
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

std::unique_ptr<GradientSync> make_ddp(StrategyParts parts) {
  if (parts.comm_hook) return make_with_buckets(parts, of_any_names(by_comm_hook(parts.comm_hook)));
  return make_with_buckets(parts, [spec = parts.spec](std::vector<std::string> names) {
    return compressed_exchange(spec, std::move(names));
  });
}

/// Throws InvalidJob. The API server refuses `single` with several ranks, but a launcher may start more ranks than the
/// job says.
std::unique_ptr<GradientSync> refuse_single(StrategyParts parts) {
  throw InvalidJob{
      fmt::format("training.strategy.name: is single, which is one rank, but {} ranks were started: start one, or "
                  "name a strategy of several ranks, such as ddp",
                  parts.group.world_size)};
}

/// Throws InvalidJob, for the reason of refuse_single().
std::unique_ptr<GradientSync> refuse_dp(StrategyParts parts) {
  throw InvalidJob{
      fmt::format("training.strategy.name: is dp, which is one rank, but {} ranks were started: start one, or name "
                  "ddp2, which is dp in each of several pods",
                  parts.group.world_size)};
}

std::unique_ptr<GradientSync> make_horovod(StrategyParts parts) {
  if (parts.spec.op == api::ReductionOp::adasum) {
    const DdpOptions options = ddp_options(parts);
    return std::make_unique<AdasumSync>(std::move(parts.parameters), std::move(parts.buffers),
                                        parts.group.process_group, *parts.group.communicator, std::move(parts.wait),
                                        options);
  }
  return make_with_buckets(parts, of_any_names(all_reduce({.dtype = sent_type(parts.spec.gradient_compression),
                                                           .predivide_factor = parts.spec.gradient_predivide_factor,
                                                           .is_mean = parts.spec.op != api::ReductionOp::sum})));
}

std::unique_ptr<GradientSync> make_sharded(StrategyParts parts) {
  DdpOptions options = ddp_options(parts);
  options.timeline = nullptr;
  options.shards_parameters = parts.spec.shard_parameters;
  return std::make_unique<Sharded>(std::move(parts.parameters), std::move(parts.buffers), parts.group.process_group,
                                   *parts.group.communicator, std::move(parts.wait), options);
}

std::unique_ptr<GradientSync> make_bagua_all_reduce(StrategyParts parts) {
  return make_with_buckets(std::move(parts), of_any_names(make_all_reduce));
}

std::unique_ptr<GradientSync> make_bagua_byte_grad(StrategyParts parts) {
  return make_with_buckets(std::move(parts), of_any_names(make_byte_grad));
}

std::unique_ptr<GradientSync> make_bagua_q_adam(StrategyParts parts) {
  return make_with_buckets(parts, of_any_names(q_adam(parts.spec.qadam_warmup_steps)));
}

PerRankModelParts per_rank_parts(const StrategyParts& parts) {
  return {.parameters = parts.parameters,
          .buffers = parts.buffers,
          .process_group = parts.group.process_group,
          .communicator = *parts.group.communicator,
          .wait = parts.wait,
          .follow = parts.follow,
          .interval = parts.spec.communication_interval,
          .pods = parts.group.pods};
}

std::unique_ptr<GradientSync> make_bagua_decentralized(StrategyParts parts) {
  return make_decentralized(per_rank_parts(parts), parts.spec.peer_selection == api::PeerSelection::all
                                                       ? PeerSelection::all
                                                       : PeerSelection::shift_one);
}

std::unique_ptr<GradientSync> make_bagua_low_precision(StrategyParts parts) {
  return make_low_precision_decentralized(per_rank_parts(parts));
}

std::unique_ptr<GradientSync> make_bagua_async(StrategyParts parts) {
  // With several optimizers each would need an agreement of its own, and all ranks one order of the collectives. The
  // strategy of an earlier optimizer has then taken the reducer.
  if (!parts.group.averaging_reducer) {
    throw InvalidJob{
        "training.strategy.algorithm: is async, which trains with one optimizer, and the model configures several: "
        "name another algorithm, such as decentralized"};
  }
  return make_async_average(per_rank_parts(parts),
                            {.reducer = std::move(parts.group.averaging_reducer),
                             .sync_interval = std::chrono::milliseconds{parts.spec.sync_interval_ms},
                             .warmup_steps = parts.spec.async_warmup_steps,
                             .limits = bucket_limits(parts.spec)});
}

std::unique_ptr<GradientSync> make_bagua(StrategyParts parts) {
  switch (parts.spec.algorithm) {
    case api::BaguaAlgorithm::gradient_allreduce:
      return make_bagua_all_reduce(std::move(parts));
    case api::BaguaAlgorithm::bytegrad:
      return make_bagua_byte_grad(std::move(parts));
    case api::BaguaAlgorithm::qadam:
      return make_bagua_q_adam(std::move(parts));
    case api::BaguaAlgorithm::decentralized:
      return make_bagua_decentralized(std::move(parts));
    case api::BaguaAlgorithm::low_precision_decentralized:
      return make_bagua_low_precision(std::move(parts));
    case api::BaguaAlgorithm::async:
      return make_bagua_async(std::move(parts));
  }
  return nullptr;  // Not reached: the compiler demands a case for each algorithm.
}

/// The strategy of several ranks that `parts.spec` names. The compiler demands a case for each name.
std::unique_ptr<GradientSync> make_of_several_ranks(StrategyParts parts) {
  switch (parts.spec.name) {
    case api::StrategyName::ddp:
    case api::StrategyName::ddp2:
      return make_ddp(std::move(parts));
    case api::StrategyName::single:
      return refuse_single(std::move(parts));
    case api::StrategyName::horovod:
      return make_horovod(std::move(parts));
    case api::StrategyName::bagua:
      return make_bagua(std::move(parts));
    case api::StrategyName::sharded:
      return make_sharded(std::move(parts));
    case api::StrategyName::dp:
      return refuse_dp(std::move(parts));
  }
  return nullptr;  // Not reached.
}

/// Throws InvalidJob unless a communication hook can take the place of the exchange of `spec`. Accepts single and dp,
/// whose makers refuse several ranks with another message.
void check_takes_comm_hook(const api::StrategySpec& spec) {
  if (spec.name == api::StrategyName::single || spec.name == api::StrategyName::dp) return;
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
  if (group.world_size == 1) {
    const bool is_adasum = spec.op == api::ReductionOp::adasum;
    return std::make_unique<SingleRank>(std::move(parameters), !has_own_parameters(spec),
                                        !is_adasum && !has_own_parameters(spec));
  }
  if (comm_hook) check_takes_comm_hook(spec);
  return make_of_several_ranks({.parameters = std::move(parameters),
                                .buffers = std::move(buffers),
                                .group = group,
                                .wait = wait,
                                .follow = follow ? std::move(follow) : wait,
                                .spec = spec,
                                .timeline = timeline,
                                .comm_hook = std::move(comm_hook)});
}

}  // namespace trainyard::strategy
