#include "api/strategy_spec.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr IntegerRange steps_range{.min = 1};
constexpr IntegerRange bucket_mib_range{.min = 1, .max = bucket_mib_max};
constexpr IntegerRange interval_ms_range{.min = 1, .max = 86'400'000};
constexpr IntegerRange rank_range{.min = 1, .max = 1024};
constexpr IntegerRange replicas_range{.min = 1, .max = 64};

constexpr IntegerRange fusion_mib_range{.min = 0, .max = 4096};
/// The largest factor is the largest number of float16.
constexpr NumberRange predivide_range{.max = 65'504, .is_min_open = true};

constexpr EnumNames<StrategyName, 8> strategy_names{{{"ddp", StrategyName::ddp},
                                                     {"ddp_spawn", StrategyName::ddp},
                                                     {"single", StrategyName::single},
                                                     {"horovod", StrategyName::horovod},
                                                     {"bagua", StrategyName::bagua},
                                                     {"sharded", StrategyName::sharded},
                                                     {"dp", StrategyName::dp},
                                                     {"ddp2", StrategyName::ddp2}}};
constexpr EnumNames<ProcessGroupBackend, 3> backend_names{{{"auto", ProcessGroupBackend::by_device},
                                                           {"gloo", ProcessGroupBackend::gloo},
                                                           {"nccl", ProcessGroupBackend::nccl}}};
constexpr EnumNames<BaguaAlgorithm, 6> algorithm_names{
    {{"gradientAllreduce", BaguaAlgorithm::gradient_allreduce},
     {"bytegrad", BaguaAlgorithm::bytegrad},
     {"qadam", BaguaAlgorithm::qadam},
     {"decentralized", BaguaAlgorithm::decentralized},
     {"lowPrecisionDecentralized", BaguaAlgorithm::low_precision_decentralized},
     {"async", BaguaAlgorithm::async}}};
constexpr EnumNames<PeerSelection, 2> peer_names{{{"all", PeerSelection::all}, {"shiftOne", PeerSelection::shift_one}}};
constexpr EnumNames<ReductionOp, 3> op_names{
    {{"average", ReductionOp::average}, {"sum", ReductionOp::sum}, {"adasum", ReductionOp::adasum}}};
constexpr EnumNames<GradientCompression, 4> compression_names{{{"none", GradientCompression::none},
                                                               {"fp16", GradientCompression::fp16},
                                                               {"bf16", GradientCompression::bf16},
                                                               {"powersgd", GradientCompression::powersgd}}};

template <typename Enum, std::size_t count>
std::string_view text_of(Enum value, const EnumNames<Enum, count>& names) {
  for (const auto& [text, named] : names) {
    if (named == value) return text;
  }
  return "";
}

/// The fields of bagua beside those of all strategies.
void read_bagua(FieldReader& fields, StrategySpec& strategy) {
  fields.read("algorithm", strategy.algorithm, algorithm_names);
  fields.read("qadamWarmupSteps", strategy.qadam_warmup_steps, steps_range);
  fields.read("hierarchical", strategy.hierarchical);
  fields.read("peerSelection", strategy.peer_selection, peer_names);
  fields.read("communicationInterval", strategy.communication_interval, steps_range);
  fields.read("syncIntervalMs", strategy.sync_interval_ms, interval_ms_range);
  fields.read("asyncWarmupSteps", strategy.async_warmup_steps);
}

void add_bagua(json& object, const StrategySpec& strategy) {
  object["algorithm"] = text_of(strategy.algorithm, algorithm_names);
  if (strategy.algorithm == BaguaAlgorithm::qadam) object["qadamWarmupSteps"] = strategy.qadam_warmup_steps;
  if (strategy.hierarchical) object["hierarchical"] = true;
  if (strategy.algorithm == BaguaAlgorithm::decentralized)
    object["peerSelection"] = text_of(strategy.peer_selection, peer_names);
  if (is_async(strategy)) {
    object["syncIntervalMs"] = strategy.sync_interval_ms;
    object["asyncWarmupSteps"] = strategy.async_warmup_steps;
  } else if (has_own_parameters(strategy)) {
    object["communicationInterval"] = strategy.communication_interval;
  }
}

}  // namespace

bool has_own_parameters(const StrategySpec& strategy) {
  return is_async(strategy) ||
         (strategy.name == StrategyName::bagua && (strategy.algorithm == BaguaAlgorithm::decentralized ||
                                                   strategy.algorithm == BaguaAlgorithm::low_precision_decentralized));
}

bool has_mean_gradients(const StrategySpec& strategy) {
  return strategy.op == ReductionOp::average && !has_own_parameters(strategy);
}

bool is_async(const StrategySpec& strategy) {
  return strategy.name == StrategyName::bagua && strategy.algorithm == BaguaAlgorithm::async;
}

bool has_replicas(const StrategySpec& strategy) {
  return strategy.name == StrategyName::dp || strategy.name == StrategyName::ddp2;
}

void read_strategy(FieldReader& fields, StrategySpec& strategy) {
  fields.read("name", strategy.name, strategy_names);
  fields.read("processGroupBackend", strategy.process_group_backend, backend_names);
  fields.read("gradientCompression", strategy.gradient_compression, compression_names);
  fields.read_object("powerSgd", [&](FieldReader& power_sgd) {
    power_sgd.read("rank", strategy.power_sgd.rank, rank_range);
    power_sgd.read("startStep", strategy.power_sgd.start_step);
    power_sgd.read("errorFeedback", strategy.power_sgd.error_feedback);
    power_sgd.read("warmStart", strategy.power_sgd.warm_start);
  });
  fields.read("bucketMiB", strategy.bucket_mib, bucket_mib_range);
  fields.read("fusionThresholdMiB", strategy.fusion_threshold_mib, fusion_mib_range);
  fields.read("autotune", strategy.autotune);
  fields.read("gradientPredivideFactor", strategy.gradient_predivide_factor, predivide_range);
  fields.read("op", strategy.op, op_names);
  read_bagua(fields, strategy);
  fields.read("broadcastBuffers", strategy.broadcast_buffers);
  fields.read("join", strategy.join);
  fields.read("syncBatchNorm", strategy.sync_batch_norm);
  fields.read("shardParameters", strategy.shard_parameters);
  fields.read("cpuReplicas", strategy.cpu_replicas, replicas_range);
  fields.read("timeline", strategy.timeline);
  fields.read_object("checkParametersEvery", [&](FieldReader& every) {
    every.require("steps");
    every.read("steps", strategy.check_parameters_every, steps_range);
  });
}

json to_json(const StrategySpec& strategy) {
  // A field that not every strategy takes is written only where it says something: beside `single` it is refused.
  json object{{"name", text_of(strategy.name, strategy_names)}};
  if (strategy.process_group_backend != ProcessGroupBackend::by_device)
    object["processGroupBackend"] = text_of(strategy.process_group_backend, backend_names);
  if (strategy.gradient_compression != GradientCompression::none)
    object["gradientCompression"] = text_of(strategy.gradient_compression, compression_names);
  if (!strategy.broadcast_buffers) object["broadcastBuffers"] = false;
  if (strategy.join) object["join"] = true;
  if (strategy.sync_batch_norm) object["syncBatchNorm"] = true;
  if (strategy.shard_parameters) object["shardParameters"] = true;
  if (has_replicas(strategy)) object["cpuReplicas"] = strategy.cpu_replicas;
  if (strategy.bucket_mib) object["bucketMiB"] = *strategy.bucket_mib;
  if (strategy.name == StrategyName::horovod) {
    if (!strategy.autotune) object["fusionThresholdMiB"] = strategy.fusion_threshold_mib;
    object["op"] = text_of(strategy.op, op_names);
    if (strategy.op == ReductionOp::average) object["gradientPredivideFactor"] = strategy.gradient_predivide_factor;
  }
  if (strategy.timeline) object["timeline"] = true;
  if (strategy.autotune) object["autotune"] = true;
  if (strategy.name == StrategyName::bagua) add_bagua(object, strategy);
  if (strategy.gradient_compression == GradientCompression::powersgd) {
    object["powerSgd"] = {{"rank", strategy.power_sgd.rank},
                          {"startStep", strategy.power_sgd.start_step},
                          {"errorFeedback", strategy.power_sgd.error_feedback},
                          {"warmStart", strategy.power_sgd.warm_start}};
  }
  if (strategy.check_parameters_every) object["checkParametersEvery"] = {{"steps", *strategy.check_parameters_every}};
  return object;
}

}  // namespace trainyard::api
