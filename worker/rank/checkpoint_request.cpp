#include "worker/rank/checkpoint_request.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "api/request.hpp"
#include "common/text.hpp"

namespace trainyard::rank {
namespace {

using nlohmann::json;

std::optional<Then> then_from(std::string_view word) {
  if (word == "continue") return Then::go_on;
  if (word == "exit") return Then::exit;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Then then) {
  return then == Then::exit ? "exit" : "continue";
}

Result<CheckpointRequest> parse_checkpoint_request(std::string_view body) {
  if (body.size() > contract::checkpoint_request_bytes_max) {
    return fail(ErrorKind::invalid,
                fmt::format("the body is longer than {} bytes", contract::checkpoint_request_bytes_max));
  }
  const json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return fail(ErrorKind::invalid, R"(the body is not a JSON object like {"id": "...", "then": "continue"})");
  const auto id = object.find("id");
  if (id == object.end() || !id->is_string() || !contract::is_request_id(id->get<std::string>())) {
    return fail(ErrorKind::invalid,
                fmt::format("id is not a string that matches {}", contract::checkpoint_request_id_pattern));
  }
  CheckpointRequest request{.id = id->get<std::string>()};
  if (const auto word = object.find("then"); word != object.end()) {
    const auto then = word->is_string() ? then_from(word->get<std::string>()) : std::nullopt;
    if (!then) return fail(ErrorKind::invalid, R"(then is neither "continue" nor "exit")");
    request.then = *then;
  }
  return request;
}

json to_json(const CheckpointRequest& request) {
  return {{"id", request.id}, {"then", to_string(request.then)}};
}

json to_json(const RequestRecord& record) {
  json object = to_json(record.request);
  object["state"] = to_string(record.state);
  if (record.step) object["step"] = *record.step;
  if (!record.uri.empty()) object["uri"] = record.uri;
  if (!record.message.empty()) object["message"] = keep_beginning(record.message, error_bytes_max);
  return object;
}

CheckpointRequest checkpoint_request_from(const json& object) {
  return {.id = object.at("id").get<std::string>(),
          .then = then_from(object.at("then").get<std::string>()).value_or(Then::go_on)};
}

RequestRecord request_record_from(const json& object) {
  RequestRecord record{.request = checkpoint_request_from(object)};
  record.state = contract::request_state_from(object.at("state").get<std::string>()).value_or(RequestState::pending);
  if (const auto step = object.find("step"); step != object.end()) record.step = step->get<std::int64_t>();
  record.uri = object.value("uri", "");
  record.message = object.value("message", "");
  return record;
}

}  // namespace trainyard::rank
