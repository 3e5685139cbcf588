#include <algorithm>
#include <cmath>

#include "common/rfc3339.hpp"
#include "operator/resource/field_reader.hpp"
#include "operator/resource/training_job.hpp"

namespace trainyard::resource {
namespace {

using nlohmann::json;

constexpr EnumNames<Phase, 9> phase_names{{{"", Phase::none},
                                           {"Pending", Phase::pending},
                                           {"Starting", Phase::starting},
                                           {"Running", Phase::running},
                                           {"Restarting", Phase::restarting},
                                           {"Suspending", Phase::suspending},
                                           {"Suspended", Phase::suspended},
                                           {"Succeeded", Phase::succeeded},
                                           {"Failed", Phase::failed}}};
constexpr EnumNames<Cause, 5> cause_names{{{"Application", Cause::application},
                                           {"Infrastructure", Cause::infrastructure},
                                           {"Deleted", Cause::deleted},
                                           {"Suspended", Cause::suspended},
                                           {"SpecChanged", Cause::spec_changed}}};

constexpr NumberRange any_number{.min = -1e300};

void put(json& object, std::string_view name, const std::string& value) {
  if (!value.empty()) object[std::string{name}] = value;
}
void put(json& object, std::string_view name, const std::optional<Time>& value) {
  if (value) object[std::string{name}] = format_rfc3339(*value);
}
/// JSON has no way to write a number that is not finite.
void put(json& object, std::string_view name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object[std::string{name}] = *value;
}
template <typename Integer>
void put(json& object, std::string_view name, const std::optional<Integer>& value) {
  if (value) object[std::string{name}] = *value;
}

ReplicaCounts read_replicas(FieldReader& fields) {
  ReplicaCounts counts;
  fields.read("desired", counts.desired);
  fields.read("ready", counts.ready);
  fields.read("pending", counts.pending);
  fields.read("succeeded", counts.succeeded);
  fields.read("failed", counts.failed);
  return counts;
}

json to_json(const ReplicaCounts& counts) {
  return {{"desired", counts.desired},
          {"ready", counts.ready},
          {"pending", counts.pending},
          {"succeeded", counts.succeeded},
          {"failed", counts.failed}};
}

Progress read_progress(FieldReader& fields) {
  Progress progress;
  fields.read("epoch", progress.epoch);
  fields.read("step", progress.step);
  fields.read("totalSteps", progress.total_steps);
  fields.read("loss", progress.loss, any_number);
  fields.read("accuracy", progress.accuracy, any_number);
  fields.read("samplesPerSecond", progress.samples_per_second, any_number);
  fields.read("estimatedEnd", progress.estimated_end);
  return progress;
}

json to_json(const Progress& progress) {
  json object{{"epoch", progress.epoch}, {"step", progress.step}};
  put(object, "totalSteps", progress.total_steps);
  put(object, "loss", progress.loss);
  put(object, "accuracy", progress.accuracy);
  put(object, "samplesPerSecond", progress.samples_per_second);
  put(object, "estimatedEnd", progress.estimated_end);
  return object;
}

CheckpointStatus read_checkpoint(FieldReader& fields) {
  CheckpointStatus checkpoint;
  fields.read("step", checkpoint.step);
  fields.read("uri", checkpoint.uri);
  fields.read("time", checkpoint.time);
  fields.read("bytes", checkpoint.bytes);
  fields.read("durationSeconds", checkpoint.duration_seconds, any_number);
  return checkpoint;
}

json to_json(const CheckpointStatus& checkpoint) {
  json object{{"step", checkpoint.step}};
  put(object, "uri", checkpoint.uri);
  put(object, "time", checkpoint.time);
  put(object, "bytes", checkpoint.bytes);
  put(object, "durationSeconds", checkpoint.duration_seconds);
  return object;
}

CheckpointRequest read_request(FieldReader& fields) {
  CheckpointRequest request;
  fields.read("id", request.id);
  fields.read("state", request.state, contract::request_state_words);
  fields.read("step", request.step);
  fields.read("uri", request.uri);
  fields.read("time", request.time);
  fields.read("message", request.message);
  return request;
}

json to_json(const CheckpointRequest& request) {
  json object{{"id", request.id}, {"state", to_string(request.state)}};
  put(object, "step", request.step);
  put(object, "uri", request.uri);
  put(object, "time", request.time);
  put(object, "message", request.message);
  return object;
}

/// What was asked for stands beside what there is.
json checkpoint_json(const TrainingJobStatus& status) {
  json object = status.checkpoint ? to_json(*status.checkpoint) : json::object();
  if (status.checkpoint_request) object["request"] = to_json(*status.checkpoint_request);
  if (status.suspend_request) object["beforeSuspend"] = to_json(*status.suspend_request);
  return object;
}

void read_checkpoints(FieldReader& fields, TrainingJobStatus& status) {
  if (fields.find("step") != nullptr) status.checkpoint = read_checkpoint(fields);
  fields.read_object("request", [&](FieldReader& request) { status.checkpoint_request = read_request(request); });
  fields.read_object("beforeSuspend", [&](FieldReader& request) { status.suspend_request = read_request(request); });
}

AttemptRecord read_attempt(FieldReader& fields) {
  AttemptRecord attempt;
  fields.read("number", attempt.number);
  fields.read("start", attempt.start);
  fields.read("end", attempt.end);
  fields.read("cause", attempt.cause, cause_names);
  fields.read("rank", attempt.rank);
  fields.read("pod", attempt.pod);
  fields.read("node", attempt.node);
  fields.read("exitCode", attempt.exit_code);
  fields.read("message", attempt.message);
  return attempt;
}

json to_json(const AttemptRecord& attempt) {
  json object{{"number", attempt.number}};
  put(object, "start", attempt.start);
  put(object, "end", attempt.end);
  if (attempt.cause) object["cause"] = to_string(*attempt.cause);
  put(object, "rank", attempt.rank);
  put(object, "pod", attempt.pod);
  put(object, "node", attempt.node);
  put(object, "exitCode", attempt.exit_code);
  put(object, "message", attempt.message);
  return object;
}

Condition read_condition(FieldReader& fields) {
  Condition condition;
  std::string value;
  fields.require("type");
  fields.read("type", condition.type);
  fields.read("status", value);
  fields.read("reason", condition.reason);
  fields.read("message", condition.message);
  fields.read("lastTransitionTime", condition.last_transition);
  fields.read("observedGeneration", condition.observed_generation);
  condition.is_true = value == "True";
  return condition;
}

json to_json(const Condition& condition) {
  json object{{"type", condition.type},
              {"status", condition.is_true ? "True" : "False"},
              {"observedGeneration", condition.observed_generation}};
  put(object, "reason", condition.reason);
  put(object, "message", condition.message);
  put(object, "lastTransitionTime", condition.last_transition);
  return object;
}

template <typename T>
json list_of(const std::vector<T>& items) {
  json list = json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

}  // namespace

Result<TrainingJobStatus> parse_status(const json& object) {
  std::optional<Error> problem;
  TrainingJobStatus status;
  FieldReader fields{object, "status", problem};
  fields.read("phase", status.phase, phase_names);
  fields.read("reason", status.reason);
  fields.read("message", status.message);
  fields.read("attempt", status.attempt);
  fields.read("attemptGeneration", status.attempt_generation);
  fields.read("formed", status.is_formed);
  fields.read("succeededRanks", status.succeeded_ranks);
  fields.read("observedGeneration", status.observed_generation);
  fields.read("ready", status.ready);
  fields.read("stepText", status.step_text);
  fields.read("restartCount", status.restart_count);
  fields.read("selector", status.selector);
  fields.read_object("replicas", [&](FieldReader& counts) { status.replicas = read_replicas(counts); });
  fields.read_object("progress", [&](FieldReader& progress) { status.progress = read_progress(progress); });
  fields.read_object("checkpoint", [&](FieldReader& checkpoint) { read_checkpoints(checkpoint, status); });
  fields.read_object("restarts", [&](FieldReader& restarts) {
    restarts.read("application", status.restarts.application);
    restarts.read("infrastructure", status.restarts.infrastructure);
  });
  fields.read("attemptsWithoutProgress", status.attempts_without_progress);
  fields.read("restartNotBefore", status.restart_not_before);
  fields.read("avoidedNodes", status.avoided_nodes);
  fields.read("workerImage", status.worker_image);
  fields.read("startTime", status.start_time);
  fields.read("completionTime", status.completion_time);
  fields.read_list("attempts", [&](FieldReader& item) { status.attempts.push_back(read_attempt(item)); });
  fields.read_list("conditions", [&](FieldReader& item) { status.conditions.push_back(read_condition(item)); });
  if (problem) return tl::unexpected{*problem};
  return status;
}

json to_json(const TrainingJobStatus& status) {
  json object{
      {"attempt", status.attempt},
      {"attemptGeneration", status.attempt_generation},
      {"formed", status.is_formed},
      {"observedGeneration", status.observed_generation},
      {"restartCount", status.restart_count},
      {"replicas", to_json(status.replicas)},
      {"restarts", {{"application", status.restarts.application}, {"infrastructure", status.restarts.infrastructure}}},
      {"attemptsWithoutProgress", status.attempts_without_progress}};
  if (status.phase != Phase::none) object["phase"] = to_string(status.phase);
  put(object, "reason", status.reason);
  put(object, "message", status.message);
  if (!status.succeeded_ranks.empty()) object["succeededRanks"] = status.succeeded_ranks;
  put(object, "ready", status.ready);
  put(object, "stepText", status.step_text);
  put(object, "selector", status.selector);
  if (status.progress) object["progress"] = to_json(*status.progress);
  if (json checkpoint = checkpoint_json(status); !checkpoint.empty()) object["checkpoint"] = std::move(checkpoint);
  // Backoff may be shorter than a second, so this one time keeps its fraction.
  if (status.restart_not_before) object["restartNotBefore"] = format_rfc3339_micro(*status.restart_not_before);
  if (!status.avoided_nodes.empty()) object["avoidedNodes"] = status.avoided_nodes;
  put(object, "workerImage", status.worker_image);
  put(object, "startTime", status.start_time);
  put(object, "completionTime", status.completion_time);
  if (!status.attempts.empty()) object["attempts"] = list_of(status.attempts);
  if (!status.conditions.empty()) object["conditions"] = list_of(status.conditions);
  return object;
}

std::string_view to_string(Phase phase) {
  return std::ranges::find(phase_names, phase, &EnumName<Phase>::second)->first;
}

std::string_view to_string(Cause cause) {
  return std::ranges::find(cause_names, cause, &EnumName<Cause>::second)->first;
}

}  // namespace trainyard::resource
