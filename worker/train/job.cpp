#include "worker/train/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "common/try.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;

/// A launcher may start a job that no API server has seen. What the server would refuse is refused here too, in the
/// same words: trained all the same, such a job would train something else, or fail on one rank alone.
Result<void> check_as_the_server(json spec) {
  const json::json_pointer claim{"/training/data/volumeClaim"}, path{"/training/data/path"};
  const auto is_absolute = [](const json& value) {
    return value.is_string() && value.get_ref<const std::string&>().starts_with('/');
  };
  if (spec.contains(claim) && spec.contains(path) && is_absolute(spec.at(path)))
    spec.at(claim.parent_pointer()).erase("volumeClaim");  // The operator has mounted it: `path` is in the container.
  const std::vector<api::Violation> violations = api::validate_training(spec);
  if (violations.empty()) return {};
  std::vector<std::string> sentences;
  for (const api::Violation& violation : violations) sentences.push_back(to_string(violation));
  return fail(ErrorKind::invalid, fmt::format("{}: {}", contract::env_spec, fmt::join(sentences, "; ")));
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
  const json spec = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object() || !spec.contains("training")) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a JSON object with the field `training`", contract::env_spec));
  }
  TRY(check_as_the_server(spec));
  Job job;
  auto training = api::parse_training_spec(spec["training"]);
  if (!training) return fail(contract::env_spec, training.error());
  job.training = std::move(*training);
  if (const api::DataSpec& data = job.training.data; !data.volume_claim.empty() && !data.path.starts_with('/')) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{}: spec.training.data.volumeClaim: a claim is mounted by the operator and by `trainyard run "
                    "--volume`, which then give an absolute path: give path or uri instead",
                    contract::env_spec));
  }
  if (spec.contains("checkpoint") && !spec["checkpoint"].is_null()) {
    auto checkpoint = api::parse_checkpoint_spec(spec["checkpoint"]);
    if (!checkpoint) return fail(contract::env_spec, checkpoint.error());
    job.checkpoint = std::move(*checkpoint);
  }
  job.cache_folder = environment("TRAINYARD_DATA_CACHE")
                         .value_or((std::filesystem::temp_directory_path() / "trainyard-data").string());
  job.sample_record_file = environment("TRAINYARD_RECORD_SAMPLES");
  return job;
}

}  // namespace trainyard::train
