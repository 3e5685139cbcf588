#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/field_reader.hpp"

/// `spec.training.strategy` of a TrainingJob: how the ranks' gradients become one. Field names, defaults, ranges and
/// units are those of crds/, where every field is described; docs/strategies.md explains them together.
namespace trainyard::api {

enum class StrategyName {
  ddp,
  single,
  horovod,
  bagua,
  sharded,
  dp,    ///< One rank, which divides its batches among the devices of its pod.
  ddp2,  ///< As dp within each pod, and as ddp between the pods.
};

/// The backend of torch.distributed that carries the exchanges between ranks.
enum class ProcessGroupBackend {
  by_device,  ///< NCCL between GPUs, Gloo between CPUs.
  gloo,       ///< Gloo, also between GPUs.
  nccl,       ///< NCCL; a rank without a GPU does not train.
};

/// The form in which a gradient is sent.
enum class GradientCompression {
  none,      ///< As it is.
  fp16,      ///< Rounded to float16, and added up in it.
  bf16,      ///< Rounded to bfloat16, and added up in it.
  powersgd,  ///< Matrices as two thin factors (Vogels et al. 2019).
};

enum class BaguaAlgorithm {
  gradient_allreduce,           ///< Gradients as they are.
  bytegrad,                     ///< Gradients as bytes between the least and the greatest of each chunk.
  qadam,                        ///< After a warm-up, the first moments of Adam as such bytes.
  decentralized,                ///< Parameters, whose means the ranks take while a step's passes run.
  low_precision_decentralized,  ///< Changes of the parameters as bytes, to two neighbours.
  async,                        ///< Parameters, whose mean a thread takes from time to time while the rank trains.
};

/// decentralized only: the ranks whose parameters become their mean.
enum class PeerSelection {
  all,
  shift_one,  ///< One other, another one in each exchange.
};

/// The way in which the ranks' gradients are combined.
enum class ReductionOp {
  average,  ///< Their mean.
  sum,      ///< Their sum.
  adasum,   ///< Each rank's optimizer steps by its own; the changes of the parameters are combined.
};

/// gradientCompression powersgd only.
struct PowerSgdSpec {
  std::int64_t rank = 1;           ///< Columns of the factors.
  std::int64_t start_step = 1000;  ///< The steps before it send gradients as they are.
  bool error_feedback = true;      ///< The part that the factors leave out is added to the next step's gradient.
  bool warm_start = true;          ///< A step begins with the factor of the step before.
  bool operator==(const PowerSgdSpec&) const = default;
};

inline constexpr std::int64_t bucket_mib_max = 4096;
inline constexpr std::int64_t ddp_bucket_mib = 25;  ///< Where a job with ddp, ddp2 or sharded gives no bucketMiB.

struct StrategySpec {
  StrategyName name = StrategyName::ddp;
  ProcessGroupBackend process_group_backend = ProcessGroupBackend::by_device;
  GradientCompression gradient_compression = GradientCompression::none;
  PowerSgdSpec power_sgd;
  /// Gradients are sent once about so many MiB of them are there. Absent: ddp_bucket_mib, or 10 with bagua. Not for
  /// horovod.
  std::optional<std::int64_t> bucket_mib;
  std::int64_t fusion_threshold_mib = 128;  ///< horovod only: as bucket_mib; 0 sends each gradient alone.
  bool autotune = false;                    ///< ddp and horovod: the first steps choose the size of buckets.
  /// horovod only: what gradients are divided by before they are added up. The rest of the division follows.
  double gradient_predivide_factor = 1.0;
  ReductionOp op = ReductionOp::average;                          ///< horovod only.
  BaguaAlgorithm algorithm = BaguaAlgorithm::gradient_allreduce;  ///< bagua only.
  std::int64_t qadam_warmup_steps = 100;                          ///< qadam only: steps that exchange gradients.
  bool hierarchical = false;  ///< bagua only: the ranks of a pod are combined first, and their first rank exchanges.
  PeerSelection peer_selection = PeerSelection::all;
  std::int64_t communication_interval = 1;  ///< The two decentralized ones only: steps from exchange to exchange.
  std::int64_t sync_interval_ms = 500;      ///< async only: from mean to mean.
  std::int64_t async_warmup_steps = 0;      ///< async only: steps that exchange gradients.
  bool broadcast_buffers = true;
  /// ddp and horovod: a rank whose samples of an epoch are used up gives zero gradients until the others have used
  /// theirs.
  bool join = false;
  bool sync_batch_norm = false;
  bool shard_parameters = false;  ///< sharded only: parameters are in parts too.
  /// dp and ddp2, on the CPU: the replicas of the model that share a rank's batches. On GPUs each has one.
  std::int64_t cpu_replicas = 1;
  bool timeline = false;                               ///< Each rank stores the times of its exchanges.
  std::optional<std::int64_t> check_parameters_every;  ///< Steps. Absent: at a resume and at the end only.
  bool operator==(const StrategySpec&) const = default;
};

/// True when each rank trains parameters of its own.
[[nodiscard]] bool has_own_parameters(const StrategySpec& strategy);
/// True when the ranks' gradients become their mean, as optimizer.lrScaling assumes.
[[nodiscard]] bool has_mean_gradients(const StrategySpec& strategy);
/// True for bagua's algorithm async.
[[nodiscard]] bool is_async(const StrategySpec& strategy);

/// True for dp and ddp2, with which a pod has one rank for all of its devices.
[[nodiscard]] bool has_replicas(const StrategySpec& strategy);

void read_strategy(FieldReader& fields, StrategySpec& strategy);
/// JSON as in the API. Reading it gives an equal value.
[[nodiscard]] nlohmann::json to_json(const StrategySpec& strategy);

}  // namespace trainyard::api
