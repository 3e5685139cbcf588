#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/device_spec.hpp"
#include "api/strategy_spec.hpp"
#include "common/result.hpp"

/// `spec.training` and `spec.checkpoint` of a TrainingJob: the worker's task. Field names, defaults, ranges and units
/// are those of crds/, where every field is described; durations are milliseconds here and strings ("90s") in JSON.
namespace trainyard::api {

enum class DataFormat { synthetic, idx, cifar10, cifar100, images, image_pairs, tokens, safetensors };
/// The use that a job makes of its model.
enum class Task {
  fit,       ///< It trains.
  validate,  ///< It measures the weights of `model` on the validation set.
  test,      ///< As validate, on the test set.
  predict,   ///< It stores what the model predicts for each sample.
};

enum class OptimizerName { adam, adamw, lamb, sgd };

/// The types of parameters and of the arithmetic. "mixed": parameters and optimizer stay float32, and the forward pass
/// uses the shorter type where that is safe (torch.autocast). The others hold everything in that type.
enum class Precision { fp32, fp64, fp16_mixed, bf16_mixed, fp16, bf16 };

/// How exactly a GPU multiplies float32 matrices: torch.set_float32_matmul_precision.
enum class Float32MatmulPrecision { highest, high, medium };

enum class ModelKind {
  program,      ///< A model that the worker's program makes by its name.
  torchscript,  ///< A file that torch.jit.save() has written.
};

struct ModelSpec {
  ModelKind kind = ModelKind::program;
  std::string name;    ///< torchscript without a name has "torchscript".
  std::string uri;     ///< torchscript only: the file.
  std::string sha256;  ///< Digest of the file `uri`. Empty: not verified.
  nlohmann::json options =
      nlohmann::json::object();  ///< For the model's constructor, which alone knows what they mean.
  std::string weights;           ///< URI of the initial weights of a run without a checkpoint. Empty: the model's own.
  std::string weights_sha256;    ///< Digest of the .safetensors file `weights`. Empty: not verified.
  bool operator==(const ModelSpec&) const = default;
};

struct DataSpec {
  DataFormat format = DataFormat::synthetic;
  std::string volume_claim;  ///< Empty: `path` is a folder in the image or on the machine.
  std::string path;          ///< Relative to the volume claim; absolute if there is none.
  std::string uri;           ///< Source of the files; excludes volume_claim and path.
  /// synthetic only: size of the training set. The validation set is a sixth of that.
  std::int64_t samples = 60'000;
  nlohmann::json options = nlohmann::json::object();  ///< For the format, which alone knows what they mean.
  std::optional<std::int64_t> loader_threads;         ///< Absent: as many as the data set asks for.
  /// The ranks share one order of the training set. False: each rank takes a whole order of its own.
  bool replace_sampler = true;
  bool operator==(const DataSpec&) const = default;
};

/// A factor of the learning rate, because the batch of all ranks grows with their number.
enum class LrScaling {
  none,
  linear,  ///< The number of ranks (Goyal et al. 2017).
  sqrt,    ///< Its square root.
};

/// The factor of `scaling` with `rank_count` ranks.
[[nodiscard]] double lr_factor(LrScaling scaling, std::int64_t rank_count);

struct OptimizerSpec {
  OptimizerName name = OptimizerName::adam;
  double lr = 0.001;
  LrScaling lr_scaling = LrScaling::none;
  double momentum = 0.0;      ///< sgd only.
  bool nesterov = false;      ///< sgd only; needs momentum.
  double weight_decay = 0.0;  ///< An L2 penalty of adam and sgd, as in torch.optim; decoupled with adamw and lamb.
  double beta1 = 0.9;         ///< All but sgd, with beta2 and eps.
  double beta2 = 0.999;
  double eps = 1e-8;
  bool operator==(const OptimizerSpec&) const = default;
};

/// Due at each multiple of any part that is set.
struct Every {
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> epochs;
  std::optional<std::chrono::milliseconds> time;  ///< Checkpoints only.
  bool best = false;  ///< checkpoint.every only: after each validation that keep.best finds better than all before.
  bool operator==(const Every&) const = default;
};

struct SnapshotsSpec {
  Every every{.steps = 500, .epochs = {}, .time = {}};  ///< Steps or epochs.
  bool operator==(const SnapshotsSpec&) const = default;
};

enum class BestMode { max, min };

enum class LrScheduleName { constant, step, linear, cosine, plateau };

/// How the learning rate changes while the job trains; each value is a factor of OptimizerSpec::lr.
struct LrScheduleSpec {
  LrScheduleName name = LrScheduleName::constant;
  std::int64_t warmup_steps = 0;  ///< In the first steps the rate grows linearly to what the schedule says.
  double min_lr = 0.0;            ///< linear and cosine end here with the training; plateau goes no lower.
  Every every;                    ///< step only: multiplies the rate by `factor` at each multiple. Steps or epochs.
  double factor = 0.1;            ///< step and plateau.
  std::string metric;             ///< plateau only, like the next three: the metric of the validation.
  BestMode mode = BestMode::min;
  std::int64_t patience = 10;  ///< Validations without a better value that are let pass.
  double threshold = 1e-4;     ///< A value is better only by more than this part of the best one.
  bool operator==(const LrScheduleSpec&) const = default;
};

/// One of the two is set.
struct GradientClipSpec {
  std::optional<double> norm;   ///< The 2-norm of all gradients together is at most this.
  std::optional<double> value;  ///< Each gradient's absolute value is at most this.
  bool operator==(const GradientClipSpec&) const = default;
};

/// An exponential moving average of the parameters, with which the model is validated.
struct EmaSpec {
  double decay = 0.999;
  bool operator==(const EmaSpec&) const = default;
};

/// Training has reached its end once `patience` validations in turn were no better than the best one.
struct EarlyStoppingSpec {
  std::string metric;
  BestMode mode = BestMode::min;
  std::int64_t patience = 3;
  double min_delta = 0.0;  ///< A value is better only by more than this.
  bool operator==(const EarlyStoppingSpec&) const = default;
};

/// The training's answer to a loss that is not finite on any rank.
enum class OnNonFiniteLoss {
  proceed,  ///< The step is made, as PyTorch does.
  stop,     ///< The job fails at once.
  skip,     ///< No parameter changes in that step.
  rewind,   ///< The group is restarted from the newest checkpoint, as often as spec.restart allows.
};

/// Files that rank 0 writes its metrics to.
enum class LogFile { tensorboard, jsonl, csv };

/// Each rank records a chrome trace of `steps` steps from step `first_step` on.
struct ProfileSpec {
  std::int64_t first_step = 10;
  std::int64_t steps = 5;
  bool operator==(const ProfileSpec&) const = default;
};

struct TrainingSpec {
  Task task = Task::fit;
  ModelSpec model;
  DataSpec data;
  std::int64_t batch_size = 64;           ///< Samples per process and step.
  std::optional<std::int64_t> epochs;     ///< Neither epochs nor max_steps: 1 epoch.
  std::optional<std::int64_t> max_steps;  ///< Optimizer steps; ends in the middle of an epoch.
  /// Batches whose gradients are summed into one optimizer step; only the last of them is reduced over the ranks.
  std::int64_t accumulate_grad_batches = 1;
  OptimizerSpec optimizer;
  DeviceSpec device;
  StrategySpec strategy;
  LrScheduleSpec lr_schedule;
  std::optional<GradientClipSpec> gradient_clip;  ///< Absent: gradients are not clipped.
  std::optional<EmaSpec> ema;
  std::optional<EarlyStoppingSpec> early_stopping;
  OnNonFiniteLoss on_non_finite_loss = OnNonFiniteLoss::proceed;
  Precision precision = Precision::fp32;
  Float32MatmulPrecision float32_matmul_precision = Float32MatmulPrecision::highest;
  bool channels_last = false;    ///< Images and convolutions are laid out with their channels last.
  bool cudnn_benchmark = false;  ///< cuDNN tries its algorithms for each new shape and takes the fastest.
  bool deterministic = false;    ///< Only deterministic algorithms are used (torch.use_deterministic_algorithms).
  std::int64_t seed = 0;
  std::optional<Every> validate_every;  ///< Absent: after every epoch. Steps or epochs.
  Every log_every{.steps = 50, .epochs = {}, .time = {}};
  std::vector<LogFile> log_files;  ///< Beside the worker's own log.
  std::string log_uri;             ///< Folder of log_files and traces. Empty: "logs" under the checkpoints' URI.
  std::optional<ProfileSpec> profile;
  std::optional<SnapshotsSpec> snapshots;  ///< Absent: no snapshots. They are stored under the checkpoints' URI.
  bool operator==(const TrainingSpec&) const = default;
};

struct S3Spec {
  std::string endpoint;                ///< Empty: AWS's endpoint of the region.
  std::string region;                  ///< Empty: the region in the environment, else us-east-1.
  std::optional<bool> path_style;      ///< Absent: true, except at AWS's own endpoints.
  std::string server_side_encryption;  ///< AES256, aws:kms or aws:kms:dsse. Empty: the bucket's default.
  std::string kms_key_id;              ///< Empty: the account's default key.
  bool operator==(const S3Spec&) const = default;
};

enum class ResumeMode { automatic, none };

/// The fate of a checkpoint that is due while the previous one is still being written.
enum class WhenBusy {
  skip,  ///< No checkpoint is made.
  wait,  ///< Training waits until the previous checkpoint is written.
};

/// How the ranks learn that their job is being suspended.
enum class OnSuspend {
  request,  ///< By a request for a checkpoint; the pods end once it is saved.
  signal,   ///< By the SIGTERM of the pods' deletion.
};

/// The fate of a job's checkpoints when the job is deleted.
enum class OnDelete {
  retain,
  remove,  ///< They are removed with the job.
};

struct KeepBestSpec {
  std::string metric;
  BestMode mode = BestMode::max;
  std::int64_t count = 1;
  bool operator==(const KeepBestSpec&) const = default;
};

/// Which checkpoints are kept: those that at least one part selects.
struct KeepSpec {
  std::int64_t last = 3;
  Every every;  ///< Steps or epochs.
  std::optional<KeepBestSpec> best;
  bool operator==(const KeepSpec&) const = default;
};

/// Copies of the checkpoint on the nodes.
struct LocalSpec {
  std::string path;  ///< A folder of the worker container.
  Every every;       ///< Steps or time.
  std::int64_t keep = 1;
  bool operator==(const LocalSpec&) const = default;
};

struct CheckpointSpec {
  std::string uri;  ///< file:///..., s3://bucket/prefix (or gs, or az) or command:...
  Every every;      ///< Nothing set: after each epoch. A last one is always made at the end and on SIGTERM.
  WhenBusy when_busy = WhenBusy::skip;
  KeepSpec keep;
  ResumeMode resume = ResumeMode::automatic;
  std::string resume_uri;  ///< A run that finds no checkpoint under `uri` resumes from here. Empty: it starts afresh.
  std::string credentials_secret;  ///< For the operator; the worker sees the resulting environment.
  S3Spec s3;
  std::optional<LocalSpec> local;             ///< Absent: no copies on the nodes.
  OnSuspend on_suspend = OnSuspend::request;  ///< For the operator, like the next field.
  OnDelete on_delete = OnDelete::retain;
  bool operator==(const CheckpointSpec&) const = default;
};

/// The names in the API.
[[nodiscard]] std::string_view name_of(DataFormat format);
[[nodiscard]] std::string_view name_of(OptimizerName name);

/// Reads JSON as in the API; absent fields get the defaults above. ErrorKind::invalid names the field by its path.
[[nodiscard]] Result<TrainingSpec> parse_training_spec(const nlohmann::json& object);
[[nodiscard]] Result<CheckpointSpec> parse_checkpoint_spec(const nlohmann::json& object);
/// JSON as in the API, with the defaults written out. Parsing it returns an equal value.
[[nodiscard]] nlohmann::json to_json(const TrainingSpec& spec);
[[nodiscard]] nlohmann::json to_json(const CheckpointSpec& spec);

}  // namespace trainyard::api
