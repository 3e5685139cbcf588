#include "worker/rank/rank_message.hpp"

#include <nlohmann/json.hpp>

#include "worker/rank/progress_json.hpp"
#include "worker/rank/truncate.hpp"

namespace trainyard::rank {
namespace {

using nlohmann::json;

json packet_of(const Alive& /*alive*/) {
  return {{"type", "alive"}};
}
json packet_of(const Beat& /*beat*/) {
  return {{"type", "beat"}};
}

json packet_of(const RankProgress& progress) {
  json object = to_json(progress);
  object["type"] = "progress";
  return object;
}

json packet_of(const RankEnd& end) {
  json object{{"type", "end"}, {"exitCode", end.exit_code}, {"reason", end.reason}};
  object["message"] =
      truncate(end.message, rank_message_bytes_max / 8);  // An escaped byte takes up to six, and the rest needs room.
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
    if (type == "beat") return Beat{};
    if (type == "progress") return progress_from(object);
    if (type == "end") return end_from(object);
    if (type == "checkpoint") return checkpoint_request_from(object);
    return fail(ErrorKind::invalid, "a rank's message has the unknown type '" + type + "'");
  } catch (const json::exception& error) {
    return fail(ErrorKind::invalid, std::string{"a rank's message is malformed: "} + error.what());
  }
}

}  // namespace trainyard::rank
