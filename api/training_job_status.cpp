#include <algorithm>
#include <cmath>
#include <limits>

#include "api/field_reader.hpp"
#include "api/training_job.hpp"
#include "common/time_text.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr EnumNames<Phase, 10> phase_names{{{"", Phase::none},
                                            {"Pending", Phase::pending},
                                            {"Starting", Phase::starting},
                                            {"Running", Phase::running},
                                            {"Restarting", Phase::restarting},
                                            {"Suspending", Phase::suspending},
                                            {"Suspended", Phase::suspended},
                                            {"Succeeded", Phase::succeeded},
                                            {"Failed", Phase::failed},
                                            {"Deleting", Phase::deleting}}};
constexpr EnumNames<Cause, 5> cause_names{{{"Application", Cause::application},
                                           {"Infrastructure", Cause::infrastructure},
                                           {"Deleted", Cause::deleted},
                                           {"Suspended", Cause::suspended},
                                           {"SpecChanged", Cause::spec_changed}}};

constexpr NumberRange any_number{.min = std::numeric_limits<double>::lowest(),
                                 .max = std::numeric_limits<double>::max()};

void put(json& object, std::string_view name, std::int64_t value) {
  object[std::string{name}] = value;
}
void put(json& object, std::string_view name, const std::string& value) {
  if (!value.empty()) object[std::string{name}] = value;
}
void put(json& object, std::string_view name, const std::optional<Time>& value) {
  if (value) object[std::string{name}] = format_rfc3339(*value);
}
/// Leaves out a number that is not finite: JSON cannot express it.
void put(json& object, std::string_view name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) object[std::string{name}] = *value;
}
template <typename Integer>
void put(json& object, std::string_view name, const std::optional<Integer>& value) {
  if (value) object[std::string{name}] = *value;
}

// Lists the fields of each part of the status once. `visit` either reads or writes a field.
template <typename Visit>
void list_fields(ReplicaCounts& counts, const Visit& visit) {
  visit("desired", counts.desired);
  visit("ready", counts.ready);
  visit("pending", counts.pending);
  visit("succeeded", counts.succeeded);
  visit("failed", counts.failed);
}
template <typename Visit>
void list_fields(RestartCounts& restarts, const Visit& visit) {
  visit("application", restarts.application);
  visit("infrastructure", restarts.infrastructure);
}
template <typename Visit>
void list_fields(Progress& progress, const Visit& visit) {
  visit("epoch", progress.epoch);
  visit("step", progress.step);
  visit("totalSteps", progress.total_steps);
  visit("loss", progress.loss);
  visit("accuracy", progress.accuracy);
  visit("samplesPerSecond", progress.samples_per_second);
  visit("estimatedEnd", progress.estimated_end);
}
template <typename Visit>
void list_fields(CheckpointStatus& checkpoint, const Visit& visit) {
  visit("step", checkpoint.step);
  visit("uri", checkpoint.uri);
  visit("time", checkpoint.time);
  visit("bytes", checkpoint.bytes);
  visit("durationSeconds", checkpoint.duration_seconds);
}
template <typename Visit>
void list_fields(CheckpointRequest& request, const Visit& visit) {
  visit("id", request.id);
  visit("state", request.state, contract::request_state_words);
  visit("step", request.step);
  visit("uri", request.uri);
  visit("time", request.time);
  visit("message", request.message);
}
template <typename Visit>
void list_fields(AttemptRecord& attempt, const Visit& visit) {
  visit("number", attempt.number);
  visit("start", attempt.start);
  visit("end", attempt.end);
  visit("cause", attempt.cause, cause_names);
  visit("rank", attempt.rank);
  visit("pod", attempt.pod);
  visit("node", attempt.node);
  visit("exitCode", attempt.exit_code);
  visit("message", attempt.message);
}

struct ReadField {
  FieldReader& fields;
  template <typename T, typename... Names>
  void operator()(std::string_view name, T& value, const Names&... names) const {
    fields.read(name, value, names...);
  }
  void operator()(std::string_view name, std::optional<double>& value) const { fields.read(name, value, any_number); }
};

struct WriteField {
  json& object;
  void operator()(std::string_view name, const auto& value) const { put(object, name, value); }
  template <typename Enum>
  void operator()(std::string_view name, const std::optional<Enum>& value, const auto& names) const {
    if (value) (*this)(name, *value, names);
  }
  template <typename Enum, std::size_t count>
  void operator()(std::string_view name, const Enum& value, const EnumNames<Enum, count>& names) const {
    object[std::string{name}] = std::ranges::find(names, value, &EnumName<Enum>::second)->first;
  }
};

template <typename T>
T read(FieldReader& fields) {
  T value;
  list_fields(value, ReadField{fields});
  return value;
}

template <typename T>
json status_json(T value) {
  json object = json::object();
  list_fields(value, WriteField{object});
  return object;
}

/// `status.checkpoint` of the API: the newest checkpoint and the requests for checkpoints.
json checkpoint_json(const TrainingJobStatus& status) {
  json object = status.checkpoint ? status_json(*status.checkpoint) : json::object();
  if (status.checkpoint_request) object["request"] = status_json(*status.checkpoint_request);
  if (status.suspend_request) object["beforeSuspend"] = status_json(*status.suspend_request);
  return object;
}

void read_checkpoints(FieldReader& fields, TrainingJobStatus& status) {
  if (fields.find("step") != nullptr) status.checkpoint = read<CheckpointStatus>(fields);
  fields.read_object("request",
                     [&](FieldReader& request) { status.checkpoint_request = read<CheckpointRequest>(request); });
  fields.read_object("beforeSuspend",
                     [&](FieldReader& request) { status.suspend_request = read<CheckpointRequest>(request); });
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

json status_json(const Condition& condition) {
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
  for (const T& item : items) list.push_back(status_json(item));
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
  fields.read_object("replicas", [&](FieldReader& counts) { status.replicas = read<ReplicaCounts>(counts); });
  fields.read_object("progress", [&](FieldReader& progress) { status.progress = read<Progress>(progress); });
  fields.read_object("checkpoint", [&](FieldReader& checkpoint) { read_checkpoints(checkpoint, status); });
  fields.read_object("restarts", [&](FieldReader& restarts) { status.restarts = read<RestartCounts>(restarts); });
  fields.read("attemptsWithoutProgress", status.attempts_without_progress);
  fields.read("restartNotBefore", status.restart_not_before);
  fields.read("avoidedNodes", status.avoided_nodes);
  fields.read("workerImage", status.worker_image);
  fields.read("startTime", status.start_time);
  fields.read("completionTime", status.completion_time);
  fields.read_list("attempts", [&](FieldReader& item) { status.attempts.push_back(read<AttemptRecord>(item)); });
  fields.read_list("conditions", [&](FieldReader& item) { status.conditions.push_back(read_condition(item)); });
  if (problem) return tl::unexpected(*problem);
  return status;
}

json to_json(const TrainingJobStatus& status) {
  json object{{"attempt", status.attempt},
              {"attemptGeneration", status.attempt_generation},
              {"formed", status.is_formed},
              {"observedGeneration", status.observed_generation},
              {"restartCount", status.restart_count},
              {"replicas", status_json(status.replicas)},
              {"restarts", status_json(status.restarts)},
              {"attemptsWithoutProgress", status.attempts_without_progress}};
  if (status.phase != Phase::none) object["phase"] = to_string(status.phase);
  put(object, "reason", status.reason);
  put(object, "message", status.message);
  if (!status.succeeded_ranks.empty()) object["succeededRanks"] = status.succeeded_ranks;
  put(object, "ready", status.ready);
  put(object, "stepText", status.step_text);
  put(object, "selector", status.selector);
  if (status.progress) object["progress"] = status_json(*status.progress);
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

}  // namespace trainyard::api
