#include "cli/nothing_left.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/training_job.hpp"
#include "cli/progress_text.hpp"
#include "cli/volume_map.hpp"
#include "storage/store.hpp"

namespace trainyard::cli {
namespace {

using checkpoint::Listed;
using nlohmann::json;

/// True if `listed` is final and has reached the end that `spec` asks for, which may be later than that of the run that
/// wrote it. The worker has the same rule.
bool is_end_of(const api::TrainingSpec& spec, const Listed& listed) {
  if (listed.standing != checkpoint::Standing::final || !listed.manifest) return false;
  const auto epochs = spec.epochs || spec.max_steps ? spec.epochs : std::optional<std::int64_t>{1};
  const json& values = listed.manifest->values;
  const bool has_epoch = values.is_object() && values.contains("epoch") && values.at("epoch").is_number_integer();
  return (epochs && has_epoch && values.at("epoch").get<std::int64_t>() >= *epochs) ||
         (spec.max_steps && listed.id.step >= *spec.max_steps);
}

}  // namespace

std::string nothing_left_line(const json& job, const Listed* newest, bool has_default_folder) {
  json object = job;
  object["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000";  // An API server would set it.
  const auto parsed = api::parse_training_job(object);
  if (!parsed || newest == nullptr || !parsed->spec.training || !parsed->spec.checkpoint) return "";
  const api::TrainingSpec& training = *parsed->spec.training;
  if (parsed->spec.checkpoint->resume == api::ResumeMode::none || !is_end_of(training, *newest)) return "";
  const char* more = training.max_steps ? "training.maxSteps" : "training.epochs";
  return fmt::format("Nothing is left to train: {} ended at step {}. To start afresh, {}; to train further, raise {}.",
                     parsed->metadata.name, newest->id.step,
                     has_default_folder ? "choose another folder with --dir" : "set checkpoint.resume: none", more);
}

std::string read_nothing_left_line(const json& job, const std::string& default_folder) {
  const std::string uri = job.value("/spec/checkpoint/uri"_json_pointer, "");
  const bool has_resume = job.value("/spec/checkpoint/resume"_json_pointer, "") != "none";
  std::error_code error;
  if (!job.contains("/spec/training"_json_pointer) || !has_resume || !uri.starts_with(file_scheme) ||
      !std::filesystem::is_directory(uri.substr(file_scheme.size()), error)) {
    return "";
  }
  const auto store = storage::open_store(uri, {});
  if (!store) return "";
  const auto catalogue = checkpoint::read_catalogue(**store);
  return catalogue ? nothing_left_line(job, catalogue->newest(), plain_path(uri) == default_folder) : "";
}

}  // namespace trainyard::cli
