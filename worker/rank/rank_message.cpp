#include "worker/rank/rank_message.hpp"

#include <nlohmann/json.hpp>

#include <limits>

#include "common/text.hpp"
#include "common/time_text.hpp"
#include "worker/rank/checkpoint_request.hpp"

namespace trainyard::rank {
namespace {

using nlohmann::json;

template <typename T>
void put(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

template <typename T>
void get(const json& object, const char* key, std::optional<T>& value) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if constexpr (std::is_floating_point_v<T>) {
    value = found->is_null() ? std::numeric_limits<T>::quiet_NaN() : found->template get<T>();
  } else {
    value = found->template get<T>();
  }
}

json checkpoint_json(const SavedCheckpoint& saved) {
  return {{"step", saved.step},
          {"uri", saved.uri},
          {"time", format_rfc3339_micro(saved.time)},
          {"bytes", saved.bytes},
          {"durationSeconds", saved.duration_seconds}};
}

SavedCheckpoint checkpoint_from(const json& object) {
  SavedCheckpoint saved{.step = object.at("step").get<std::int64_t>(),
                        .uri = object.at("uri").get<std::string>(),
                        .time = {},
                        .bytes = object.at("bytes").get<std::int64_t>(),
                        .duration_seconds = object.at("durationSeconds").get<double>()};
  if (const auto time = parse_rfc3339(object.at("time").get<std::string>())) saved.time = *time;
  return saved;
}

}  // namespace

json to_json(const RankProgress& progress) {
  json object{{"phase", progress.phase}};
  put(object, "epoch", progress.epoch);
  put(object, "epochs", progress.epochs);
  put(object, "step", progress.step);
  put(object, "totalSteps", progress.total_steps);
  put(object, "loss", progress.loss);
  put(object, "samplesPerSecond", progress.samples_per_second);
  put(object, "etaSeconds", progress.eta_seconds);
  if (!progress.step_milliseconds.empty()) object["stepTimes"] = progress.step_milliseconds;
  put(object, "accuracy", progress.accuracy);
  if (progress.checkpoint) object["checkpoint"] = checkpoint_json(*progress.checkpoint);
  if (!progress.checkpoint_error.empty())
    object["checkpointError"] = keep_beginning(progress.checkpoint_error, error_bytes_max);
  if (progress.checkpoint_request) object["checkpointRequest"] = to_json(*progress.checkpoint_request);
  if (!progress.waiting_for.empty()) object["waitingFor"] = progress.waiting_for;
  return object;
}

RankProgress progress_from(const json& object) {
  RankProgress progress;
  progress.phase = object.at("phase").get<std::string>();
  get(object, "epoch", progress.epoch);
  get(object, "epochs", progress.epochs);
  get(object, "step", progress.step);
  get(object, "totalSteps", progress.total_steps);
  get(object, "loss", progress.loss);
  get(object, "samplesPerSecond", progress.samples_per_second);
  get(object, "etaSeconds", progress.eta_seconds);
  if (const auto times = object.find("stepTimes"); times != object.end())
    progress.step_milliseconds = times->get<std::map<std::string, double>>();
  get(object, "accuracy", progress.accuracy);
  if (const auto saved = object.find("checkpoint"); saved != object.end())
    progress.checkpoint = checkpoint_from(*saved);
  progress.checkpoint_error = object.value("checkpointError", "");
  if (const auto record = object.find("checkpointRequest"); record != object.end())
    progress.checkpoint_request = request_record_from(*record);
  progress.waiting_for = object.value("waitingFor", "");
  return progress;
}

namespace {

using nlohmann::json;

json packet_of(const Alive& /*alive*/) {
  return {{"type", "alive"}};
}
json packet_of(const Beat& beat) {
  json object{{"type", "beat"}};
  if (!beat.long_wait.empty()) object["longWait"] = keep_beginning(beat.long_wait, collective_bytes_max);
  return object;
}

json packet_of(const RankProgress& progress) {
  json object = to_json(progress);
  object["type"] = "progress";
  return object;
}

json packet_of(const RankEnd& end) {
  json object{{"type", "end"}, {"exitCode", end.exit_code}, {"reason", end.reason}};
  object["message"] = keep_beginning(
      end.message, rank_message_bytes_max / 8);  // An escaped byte takes up to six, and the rest needs room.
  if (end.culprit) object["culprit"] = *end.culprit;
  if (end.culprit_exit_code) object["culpritExitCode"] = *end.culprit_exit_code;
  return object;
}

json packet_of(const CheckpointRequest& request) {
  json object = to_json(request);
  object["type"] = "checkpoint";
  return object;
}

RankEnd end_from(const json& object) {
  RankEnd end;
  end.exit_code = object.at("exitCode").get<int>();
  end.reason = object.at("reason").get<std::string>();
  end.message = object.at("message").get<std::string>();
  if (const auto culprit = object.find("culprit"); culprit != object.end()) end.culprit = culprit->get<std::int64_t>();
  if (const auto code = object.find("culpritExitCode"); code != object.end()) end.culprit_exit_code = code->get<int>();
  return end;
}

}  // namespace

std::string encode(const RankMessage& message) {
  const json object = std::visit([](const auto& alternative) { return packet_of(alternative); }, message);
  // A library's error text need not be UTF-8.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<RankMessage> decode_rank_message(std::string_view packet) {
  try {
    const json object = json::parse(packet);
    const auto type = object.at("type").get<std::string>();
    if (type == "alive") return Alive{};
    if (type == "beat") return Beat{.long_wait = keep_beginning(object.value("longWait", ""), collective_bytes_max)};
    if (type == "progress") return progress_from(object);
    if (type == "end") return end_from(object);
    if (type == "checkpoint") return checkpoint_request_from(object);
    return fail(ErrorKind::invalid, "a rank's message has the unknown type '" + type + "'");
  } catch (const json::exception& error) {
    return fail(ErrorKind::invalid, std::string{"a rank's message is malformed: "} + error.what());
  }
}

}  // namespace trainyard::rank
