#include "api/training_job.hpp"

#include "api/field_reader.hpp"
#include "common/try.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr EnumNames<CleanPods, 3> clean_pods_names{
    {{"None", CleanPods::none}, {"Running", CleanPods::running}, {"All", CleanPods::all}}};

void read_seconds(FieldReader& fields, std::string_view name, std::optional<std::chrono::seconds>& value) {
  std::optional<std::int64_t> seconds;
  fields.read(name, seconds, IntegerRange{});
  if (seconds) value = std::chrono::seconds{*seconds};
}

void read_restart(FieldReader& fields, RestartSpec& restart) {
  const auto read_budget = [&](std::string_view name, RestartBudget& budget) {
    fields.read_object(name, [&](FieldReader& cause) { cause.read("max", budget.max); });
  };
  read_budget("application", restart.application);
  read_budget("infrastructure", restart.infrastructure);
  fields.read_object("backoff", [&](FieldReader& backoff) {
    backoff.read("initial", restart.backoff.initial);
    backoff.read("max", restart.backoff.max);
  });
  fields.read("noProgressAttempts", restart.no_progress_attempts, IntegerRange{.min = 1});
}

/// Removes null fields at every depth: to Kubernetes a null field is an absent one.
json without_nulls(const json& value) {
  if (!value.is_structured()) return value;
  json kept = value.is_object() ? json::object() : json::array();
  for (const auto& [name, item] : value.items()) {
    if (item.is_null()) continue;
    if (value.is_object()) {
      kept[name] = without_nulls(item);
    } else {
      kept.push_back(without_nulls(item));
    }
  }
  return kept;
}

Result<TrainingJobSpec> parse_spec(const json& object) {
  std::optional<Error> problem;
  TrainingJobSpec spec;
  FieldReader fields{object, "spec", problem};
  fields.read("replicas", spec.replicas, IntegerRange{.min = 1});
  fields.read("gpusPerPod", spec.gpus_per_pod);
  fields.read_object("template", [&](FieldReader&) { spec.pod_template = without_nulls(object.at("template")); });
  fields.read_object("restart", [&](FieldReader& restart) { read_restart(restart, spec.restart); });
  fields.read("suspend", spec.is_suspended);
  read_seconds(fields, "activeDeadlineSeconds", spec.active_deadline);
  read_seconds(fields, "ttlSecondsAfterFinished", spec.ttl_after_finished);
  fields.read("cleanPods", spec.clean_pods, clean_pods_names);
  const json* training = fields.find("training");
  const json* checkpoint = fields.find("checkpoint");
  if (problem) return tl::unexpected(*problem);
  if (training != nullptr) {
    spec.training = TRY(parse_training_spec(*training));
  }
  if (checkpoint != nullptr) {
    spec.checkpoint = TRY(parse_checkpoint_spec(*checkpoint));
  }
  return spec;
}

}  // namespace

Result<TrainingJob> parse_training_job(const json& object) {
  auto metadata = TRY(parse_metadata(object));
  auto spec = TRY(parse_spec(object.value("spec", json::object())));
  auto status = TRY(parse_status(object.value("status", json::object())));
  return TrainingJob{.metadata = std::move(metadata), .spec = std::move(spec), .status = std::move(status)};
}

}  // namespace trainyard::api
