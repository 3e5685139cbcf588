#include "cli/nothing_left.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/training_job.hpp"
#include "cli/file_uri.hpp"
#include "cli/progress_text.hpp"
#include "common/try.hpp"
#include "storage/store.hpp"

namespace trainyard::cli {
namespace {

using checkpoint::Listed;
using nlohmann::json;

/// The worker's rule, which also looks at the end of what `spec` asks for: it may ask for more than the run that ended.
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
  object["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000";  // Which an API server would give it.
  const auto parsed = api::parse_training_job(object);
  if (!parsed || newest == nullptr || !parsed->spec.training || !parsed->spec.checkpoint) return "";
  const api::TrainingSpec& training = *parsed->spec.training;
  if (parsed->spec.checkpoint->resume == api::ResumeMode::none || !is_end_of(training, *newest)) return "";
  const char* more = training.max_steps ? "training.maxSteps" : "training.epochs";
  return fmt::format("Nothing is left to train: {} has ended at step {}. To start afresh, {}; to train on, raise {}.",
                     parsed->metadata.name, newest->id.step,
                     has_default_folder ? "name another folder by --dir" : "set checkpoint.resume: none", more);
}

Result<std::string> look_for_end(const json& job, const std::string& default_folder) {
  const std::string uri = job.value("/spec/checkpoint/uri"_json_pointer, "");
  std::error_code error;
  if (!uri.starts_with(file_scheme) || !std::filesystem::is_directory(uri.substr(file_scheme.size()), error)) return "";
  const auto store = TRY(storage::open_store(uri, {}));
  const auto catalogue = TRY(checkpoint::read_catalogue(*store));
  return nothing_left_line(job, catalogue.newest(), plain_path(uri) == default_folder);
}

}  // namespace trainyard::cli
