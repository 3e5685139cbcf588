#include "worker/train/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "api/validation/validate.hpp"
#include "common/try.hpp"
#include "storage/file_store.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;

/// The JSON object of TRAINYARD_SPEC.
Result<json> parse_spec(const std::string& text) {
  constexpr int depth_max = 100;  // No job has as many levels, and functions that call themselves read the values.
  bool is_too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t, json&) {
    is_too_deep |= depth >= depth_max;
    return !is_too_deep;
  };
  json spec = json::parse(text, watch, /*allow_exceptions=*/false);
  if (is_too_deep)
    return fail(ErrorKind::invalid, fmt::format("{} is nested deeper than {} levels", contract::env_spec, depth_max));
  if (!spec.is_object() || !spec.contains("training")) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not a JSON object with the field `training`", contract::env_spec));
  }
  return spec;
}

/// `spec` as a user of the present API would have written it.
json as_written(json spec) {
  const json::json_pointer claim{"/training/data/volumeClaim"}, path{"/training/data/path"};
  if (spec.contains(claim) && spec.contains(path) && spec.at(path).is_string()) {
    // The operator has put the folder where the claim is mounted before the job's path.
    std::string_view rest = spec.at(path).get_ref<const std::string&>();
    if (rest == contract::data_mount_path) {
      spec.at(path.parent_pointer()).erase("path");
    } else if (rest.starts_with(contract::data_mount_path) && rest[contract::data_mount_path.size()] == '/') {
      spec.at(path) = std::string{rest.substr(contract::data_mount_path.size() + 1)};
    } else if (rest.starts_with('/')) {  // `trainyard run` has put a folder of its machine in the claim's place.
      spec.at(path.parent_pointer()).erase("volumeClaim");
    }
  }
  // Operators of earlier releases wrote these where the job left them out, also where they are refused beside others.
  const auto drop_default = [&spec](const char* parent, const char* field, const json& value) {
    const json::json_pointer owner{parent};
    if (spec.contains(owner) && spec.at(owner).is_object() && spec.at(owner).value(field, json()) == value)
      spec.at(owner).erase(field);
  };
  drop_default("/checkpoint", "every", json::object());
  drop_default("/training/strategy", "gradientCompression", "none");
  drop_default("/training/strategy", "broadcastBuffers", true);
  drop_default("/training/strategy", "syncBatchNorm", false);
  return spec;
}

/// A launcher may start a job that no API server has seen. It is refused here for what the server would refuse, in the
/// same words: trained all the same, such a job would train something else, or fail on one rank alone.
Result<void> check_as_the_server(const json& spec) {
  const std::vector<api::Violation> violations = api::validate_training(as_written(spec));
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
  const json spec = TRY(parse_spec(*text));
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
  const std::string cache = environment("TRAINYARD_DATA_CACHE").value_or("");
  job.cache_folder =
      cache.empty() ? std::filesystem::temp_directory_path() / "trainyard-data" : std::filesystem::absolute(cache);
  job.cache_modes = TRY(storage::file_modes(environment));
  job.sample_record_file = environment("TRAINYARD_RECORD_SAMPLES");
  return job;
}

}  // namespace trainyard::train
