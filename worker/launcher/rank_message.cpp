#include "worker/launcher/rank_message.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "worker/launcher/truncate.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

template <typename T>
void put(json& object, const char* key, const std::optional<T>& value) {
  // JSON has no NaN: nlohmann writes null, which get() reads back.
  if (value) object[key] = *value;
}

template <typename T>
void get(const json& object, const char* key, std::optional<T>& value) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if constexpr (std::is_floating_point_v<T>) {
    value = found->is_null() ? std::numeric_limits<T>::quiet_NaN() : found->get<T>();
  } else {
    value = found->get<T>();
  }
}

json to_json(const Alive& /*alive*/) {
  return {{"type", "alive"}};
}
json to_json(const Beat& /*beat*/) {
  return {{"type", "beat"}};
}

json to_json(const RankProgress& progress) {
  json object{{"type", "progress"}, {"phase", progress.phase}};
  put(object, "epoch", progress.epoch);
  put(object, "epochs", progress.epochs);
  put(object, "step", progress.step);
  put(object, "totalSteps", progress.total_steps);
  put(object, "loss", progress.loss);
  put(object, "samplesPerSecond", progress.samples_per_second);
  put(object, "etaSeconds", progress.eta_seconds);
  put(object, "accuracy", progress.accuracy);
  if (const auto& saved = progress.checkpoint) {
    object["checkpoint"] = {{"step", saved->step},
                            {"uri", saved->uri},
                            {"timeMilliseconds", saved->time.time_since_epoch().count()},
                            {"bytes", saved->bytes}};
  }
  if (!progress.waiting_for.empty()) object["waitingFor"] = progress.waiting_for;
  return object;
}

json to_json(const RankEnd& end) {
  json object{{"type", "end"}, {"exitCode", end.exit_code}, {"reason", end.reason}};
  object["message"] =
      truncate(end.message, rank_message_bytes_max / 8);  // An escaped byte takes up to six, and the rest needs room.
  put(object, "culprit", end.culprit);
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
  get(object, "accuracy", progress.accuracy);
  if (const auto saved = object.find("checkpoint"); saved != object.end()) {
    progress.checkpoint = SavedCheckpoint{
        .step = saved->at("step").get<std::int64_t>(),
        .uri = saved->at("uri").get<std::string>(),
        .time = Time{std::chrono::milliseconds{saved->at("timeMilliseconds").get<std::int64_t>()}},
        .bytes = saved->at("bytes").get<std::int64_t>(),
    };
  }
  progress.waiting_for = object.value("waitingFor", "");
  return progress;
}

RankEnd end_from(const json& object) {
  RankEnd end;
  end.exit_code = object.at("exitCode").get<int>();
  end.reason = object.at("reason").get<std::string>();
  end.message = object.at("message").get<std::string>();
  get(object, "culprit", end.culprit);
  return end;
}

}  // namespace

std::string encode(const RankMessage& message) {
  const json object = std::visit([](const auto& alternative) { return to_json(alternative); }, message);
  // What a library put into its error text need not be UTF-8.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<RankMessage> decode_rank_message(std::string_view packet) {
  try {
    const json object = json::parse(packet);
    const auto type = object.at("type").get<std::string>();
    if (type == "alive") return Alive{};
    if (type == "beat") return Beat{};
    if (type == "progress") return progress_from(object);
    if (type == "end") return end_from(object);
    return fail(ErrorKind::invalid, "a rank's message has the unknown type '" + type + "'");
  } catch (const json::exception& error) {
    return fail(ErrorKind::invalid, std::string{"a rank's message is malformed: "} + error.what());
  }
}

}  // namespace trainyard::launcher
