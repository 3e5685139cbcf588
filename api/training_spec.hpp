#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/result.hpp"

/// `spec.training` and `spec.checkpoint` of a TrainingJob: what the worker is told to do. Field names, defaults, ranges
/// and units are those of crds/, where every field is described; durations are milliseconds here and strings ("90s") in
/// JSON.
namespace trainyard::api {

enum class DataFormat { synthetic, idx };
enum class OptimizerName { adam, sgd };

struct ModelSpec {
  std::string name;
  std::string weights;  ///< URI of what a run begins with that has no checkpoint to go on from. Empty: the model's own.
  std::string weights_sha256;  ///< Of the .safetensors file that `weights` names. Empty: any bytes will do.
  bool operator==(const ModelSpec&) const = default;
};

struct DataSpec {
  DataFormat format = DataFormat::synthetic;
  std::string volume_claim;  ///< Empty: `path` is a folder of the image or the machine.
  std::string path;          ///< Relative to the claim, or absolute without one.
  std::string uri;           ///< Where the files are fetched from; excludes volume_claim and path.
  /// synthetic only: size of the training set; a sixth of it again is the validation set.
  std::int64_t samples = 60'000;
  bool operator==(const DataSpec&) const = default;
};

struct OptimizerSpec {
  OptimizerName name = OptimizerName::adam;
  double lr = 0.001;
  double momentum = 0.0;      ///< sgd only.
  double weight_decay = 0.0;  ///< L2 into the gradient, as torch.optim.Adam and SGD do.
  double beta1 = 0.9;         ///< adam only, with beta2 and eps.
  double beta2 = 0.999;
  double eps = 1e-8;
  bool operator==(const OptimizerSpec&) const = default;
};

/// At each multiple of any part that is set.
struct Every {
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> epochs;
  std::optional<std::chrono::milliseconds> time;  ///< Of checkpoints only.
  bool best = false;  ///< checkpoint.every only: after each validation that keep.best finds better than all before.
  bool operator==(const Every&) const = default;
};

struct SnapshotsSpec {
  Every every{.steps = 500, .epochs = {}, .time = {}};  ///< Steps or epochs.
  bool operator==(const SnapshotsSpec&) const = default;
};

struct TrainingSpec {
  ModelSpec model;
  DataSpec data;
  std::int64_t batch_size = 64;           ///< Samples per process and step.
  std::optional<std::int64_t> epochs;     ///< Neither epochs nor max_steps: 1 epoch.
  std::optional<std::int64_t> max_steps;  ///< Optimizer steps; ends in the middle of an epoch.
  OptimizerSpec optimizer;
  std::int64_t seed = 0;
  std::optional<Every> validate_every;  ///< Absent: after every epoch. Steps or epochs.
  Every log_every{.steps = 50, .epochs = {}, .time = {}};
  std::optional<SnapshotsSpec> snapshots;  ///< Absent: none are made. They lie under the checkpoints' URI.
  bool operator==(const TrainingSpec&) const = default;
};

struct S3Spec {
  std::string endpoint;                ///< Empty: AWS's, by region.
  std::string region;                  ///< Empty: the environment's, else us-east-1.
  std::optional<bool> path_style;      ///< Absent: in the path, except at AWS's own endpoints.
  std::string server_side_encryption;  ///< AES256, aws:kms or aws:kms:dsse. Empty: as the bucket says.
  std::string kms_key_id;              ///< Empty: the account's own.
  bool operator==(const S3Spec&) const = default;
};

enum class ResumeMode { automatic, none };

/// What becomes of a checkpoint that is due while the one before is still being written.
enum class WhenBusy {
  skip,  ///< It is left out.
  wait,  ///< Training waits until the one before is written.
};

/// How the ranks of a job that is being suspended are told.
enum class OnSuspend {
  request,  ///< They are asked for a checkpoint, and their pods end when it is there.
  signal,   ///< By the SIGTERM of their pods' deletion.
};

/// What becomes of what a job has saved when the job is deleted.
enum class OnDelete {
  retain,
  remove,  ///< It goes with the job.
};

enum class BestMode { max, min };

struct KeepBestSpec {
  std::string metric;
  BestMode mode = BestMode::max;
  std::int64_t count = 1;
  bool operator==(const KeepBestSpec&) const = default;
};

/// Which checkpoints are kept: what any part names.
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
  Every every;      ///< Nothing set: each epoch's end. A last one is always made at the end and on SIGTERM.
  WhenBusy when_busy = WhenBusy::skip;
  KeepSpec keep;
  ResumeMode resume = ResumeMode::automatic;
  std::string resume_uri;          ///< Where a run begins that finds nothing under `uri`. Empty: afresh.
  std::string credentials_secret;  ///< The operator's business; the worker sees the environment that comes of it.
  S3Spec s3;
  std::optional<LocalSpec> local;             ///< Absent: none.
  OnSuspend on_suspend = OnSuspend::request;  ///< The operator's business, as is the next one.
  OnDelete on_delete = OnDelete::retain;
  bool operator==(const CheckpointSpec&) const = default;
};

/// Reads JSON in the API's form; absent fields get the defaults above. ErrorKind::invalid names the field by its path.
[[nodiscard]] Result<TrainingSpec> parse_training_spec(const nlohmann::json& object);
[[nodiscard]] Result<CheckpointSpec> parse_checkpoint_spec(const nlohmann::json& object);
/// The API's form, defaults written out. Parsing it gives back an equal value.
[[nodiscard]] nlohmann::json to_json(const TrainingSpec& spec);
[[nodiscard]] nlohmann::json to_json(const CheckpointSpec& spec);

}  // namespace trainyard::api
