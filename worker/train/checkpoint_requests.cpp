#include "worker/train/checkpoint_requests.hpp"

#include <utility>

#include "common/logging.hpp"

namespace trainyard::train {

using contract::RequestState;
using rank::CheckpointRequest;
using rank::RequestRecord;
using rank::Then;

bool CheckpointRequests::is_exit_asked() const {
  const auto request = pending();
  return request && request->then == Then::exit;
}

void CheckpointRequests::saved(const SavedState& state) {
  const auto request = std::exchange(answering_, std::nullopt);
  if (request) answer({.request = *request, .state = RequestState::done, .step = state.step, .uri = state.uri});
}

void CheckpointRequests::failed(const std::string& why) {
  const auto request = std::exchange(answering_, std::nullopt);
  if (request) answer({.request = *request, .state = RequestState::failed, .message = why});
}

void CheckpointRequests::end(const std::optional<SavedState>& state, const std::string& how_it_ended) {
  begin_save();
  state ? saved(*state) : failed(how_it_ended);
}

std::optional<CheckpointRequest> CheckpointRequests::pending() const {
  auto request = link_.checkpoint_request();
  if (request && record_ && record_->request.id == request->id) return std::nullopt;
  return request;
}

void CheckpointRequests::answer(RequestRecord record) {
  if (record.state == RequestState::done) {
    logging::info("checkpoint request done", {{"id", record.request.id}, {"step", *record.step}, {"uri", record.uri}});
  } else {
    logging::warn("checkpoint request failed", {{"id", record.request.id}, {"error", record.message}});
  }
  record_ = std::move(record);
}

}  // namespace trainyard::train
