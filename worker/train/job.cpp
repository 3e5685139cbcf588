#include "worker/train/job.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/contract.hpp"
#include "common/try.hpp"

namespace trainyard::train {
namespace {

/// The API server refuses these jobs, but a launcher may start a job that it has not seen. Trained all the same, they
/// would save or compare parameters that the ranks do not have in common.
Result<void> check_own_parameters(const Job& job) {
  const api::TrainingSpec& training = job.training;
  const api::StrategySpec& strategy = training.strategy;
  if (!api::has_own_parameters(strategy)) return {};
  struct Refused {
    bool is_asked;
    std::string_view what;
  };
  for (const auto& [is_asked, what] :
       {Refused{strategy.sync_batch_norm, "strategy.syncBatchNorm"},
        Refused{strategy.bucket_mib.has_value(), "strategy.bucketMiB"}, Refused{strategy.timeline, "strategy.timeline"},
        Refused{strategy.check_parameters_every.has_value(), "strategy.checkParametersEvery"},
        Refused{training.ema.has_value(), "ema"},
        Refused{training.precision == api::Precision::fp16_mixed, "precision 16-mixed"},
        Refused{job.checkpoint && job.checkpoint->local, "checkpoint.local"}}) {
    if (!is_asked) continue;
    return fail(ErrorKind::invalid, fmt::format("{}: {} is not for training.strategy.algorithm decentralized, "
                                                "lowPrecisionDecentralized and async, whose ranks have parameters of "
                                                "their own: leave it out",
                                                contract::env_spec, what));
  }
  if (api::is_async(strategy) && training.accumulate_grad_batches > 1) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: training.accumulateGradBatches is not for training.strategy.algorithm async, whose "
                            "ranks exchange once in a time and not once a step: leave it out",
                            contract::env_spec));
  }
  if (api::is_async(strategy) && strategy.hierarchical) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{}: training.strategy.hierarchical is not for algorithm async, in which all ranks take one "
                    "mean: leave it out",
                    contract::env_spec));
  }
  return {};
}

/// As above. Parameters in parts cannot be trained so, or not without a deadlock.
Result<void> check_shard_parameters(const Job& job) {
  const api::StrategySpec& strategy = job.training.strategy;
  if (!strategy.shard_parameters) return {};
  std::string_view why;
  if (strategy.name != api::StrategyName::sharded) why = "is only for name sharded";
  if (strategy.sync_batch_norm) why = "is not for syncBatchNorm";
  if (strategy.check_parameters_every) why = "is not for checkParametersEvery";
  if (why.empty()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("{}: training.strategy.shardParameters {}: leave one of them out", contract::env_spec, why));
}

}  // namespace

Result<Job> read_job(const rank::Environment& environment) {
  const auto text = environment(contract::env_spec);
  if (!text) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is not set: it holds the job's `training` and `checkpoint` as JSON; `trainyard run` and the "
                    "operator set it",
                    contract::env_spec));
  }
  const nlohmann::json spec = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec.contains("training")) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a JSON object with the field `training`", contract::env_spec));
  }
  Job job;
  auto training = api::parse_training_spec(spec["training"]);
  if (!training) return fail(contract::env_spec, training.error());
  job.training = std::move(*training);
  if (spec.contains("checkpoint") && !spec["checkpoint"].is_null()) {
    auto checkpoint = api::parse_checkpoint_spec(spec["checkpoint"]);
    if (!checkpoint) return fail(contract::env_spec, checkpoint.error());
    job.checkpoint = std::move(*checkpoint);
  }
  if (job.training.snapshots && !job.checkpoint) {
    return fail(ErrorKind::invalid, fmt::format("{}: training.snapshots are kept under checkpoint.uri: give it, or "
                                                "leave them out",
                                                contract::env_spec));
  }
  const bool has_files = !job.training.log_files.empty() || job.training.profile || job.training.strategy.timeline;
  if (has_files && job.training.log_uri.empty() && !job.checkpoint) {
    return fail(ErrorKind::invalid,
                fmt::format("{}: training.log.files, training.profile and strategy.timeline have nowhere to "
                            "be put: give training.log.uri, or checkpoint.uri",
                            contract::env_spec));
  }
  if (job.training.task != api::Task::fit) {
    const bool needs_place = job.training.task == api::Task::predict && job.training.log_uri.empty();
    const api::ModelSpec& model = job.training.model;
    const bool has_weights = !model.weights.empty() || model.kind == api::ModelKind::torchscript;
    if (!has_weights || job.checkpoint || needs_place) {
      return fail(ErrorKind::invalid,
                  fmt::format("{}: training.task validate, test and predict need training.model.weights (or a model of "
                              "kind torchscript) and no checkpoint, and predict needs training.log.uri",
                              contract::env_spec));
    }
  }
  TRY(check_own_parameters(job));
  TRY(check_shard_parameters(job));
  job.cache_folder = environment("TRAINYARD_DATA_CACHE")
                         .value_or((std::filesystem::temp_directory_path() / "trainyard-data").string());
  job.sample_record_file = environment("TRAINYARD_RECORD_SAMPLES");
  return job;
}

}  // namespace trainyard::train
