#include "worker/train/job.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/contract.hpp"

namespace trainyard::train {

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
  job.cache_folder = environment("TRAINYARD_DATA_CACHE")
                         .value_or((std::filesystem::temp_directory_path() / "trainyard-data").string());
  job.sample_record_file = environment("TRAINYARD_RECORD_SAMPLES");
  return job;
}

}  // namespace trainyard::train
