#include "worker/launcher/checkpoint_endpoint.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "api/contract.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

CheckpointAnswer answer(int http_status, const json& object) {
  // A storage's error text need not be UTF-8.
  return {.http_status = http_status, .body = object.dump(-1, ' ', false, json::error_handler_t::replace)};
}

CheckpointAnswer refuse(int http_status, std::string_view why) {
  return answer(http_status, {{"error", why}});
}

/// True when `given` is `secret`. The time depends only on the length of `given`, so that it does not show how much of
/// the guess is right.
bool is_secret(std::string_view given, std::string_view secret) {
  volatile unsigned difference = given.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const unsigned expected = static_cast<unsigned char>(secret[i % secret.size()]);
    difference = difference | (static_cast<unsigned char>(given[i]) ^ expected);
  }
  return difference == 0;
}

}  // namespace

CheckpointAnswer CheckpointEndpoint::post(std::string_view authorization, std::string_view body) {
  if (!settings_.token) {
    return refuse(
        403, fmt::format("this pod takes no requests for checkpoints: {} is not set", contract::env_request_token));
  }
  if (!is_secret(authorization, "Bearer " + *settings_.token))
    return refuse(401, "the token is wrong or missing: send the header Authorization: Bearer TOKEN");
  const auto request = rank::parse_checkpoint_request(body);
  if (!request) return refuse(400, request.error().message);
  if (!settings_.is_rank0) return refuse(409, "this is not rank 0's pod: rank 0 takes requests for checkpoints");
  if (record_ && record_->request.id == request->id) return answer(200, rank::to_json(*record_));
  if (record_ && record_->state == contract::RequestState::pending) {
    const std::string& pending = record_->request.id;
    return answer(409, {{"error", fmt::format("the request {} is still pending", pending)}, {"id", pending}});
  }
  if (!settings_.has_checkpoint_uri) return refuse(409, "the job saves no checkpoints: checkpoint.uri is not set");
  if (is_closed_) return refuse(409, "training has ended: no further checkpoint is saved");
  record_ = rank::RequestRecord{.request = *request};
  unsent_ = *request;
  return answer(202, {{"id", request->id}, {"state", to_string(contract::RequestState::pending)}});
}

std::optional<rank::CheckpointRequest> CheckpointEndpoint::take_request() {
  return std::exchange(unsent_, std::nullopt);
}

void CheckpointEndpoint::on_report(const std::optional<rank::RequestRecord>& answered) {
  // The rank reports the outcome of the previous request until it has answered this one.
  if (answered && record_ && answered->request.id == record_->request.id) record_ = answered;
}

}  // namespace trainyard::launcher
