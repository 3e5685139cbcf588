#include "cli/request_news.hpp"

#include <fmt/format.h>

#include "operator/plan/checkpoint_request.hpp"

namespace trainyard::cli {

using api::RequestState;

RequestNews request_news(const api::CheckpointRequest& request) {
  switch (request.state) {
    case RequestState::pending:
      return {RequestNews::State::waiting, request.message};
    case RequestState::done:
      return {RequestNews::State::saved, fmt::format("step {} saved: {}", request.step.value_or(0), request.uri)};
    case RequestState::failed:
      break;
  }
  return {RequestNews::State::failed, request.message};
}

RequestNews request_news(const api::TrainingJob& job, const std::string& id) {
  const auto& request = job.status.checkpoint_request;
  if (request && request->id == id) return request_news(*request);
  const auto annotation = job.metadata.annotations.find(std::string{plan::checkpoint_request_annotation});
  if (annotation == job.metadata.annotations.end()) {
    return {RequestNews::State::failed, "somebody took the request away before it was answered"};
  }
  if (annotation->second != id) {
    return {RequestNews::State::failed,
            fmt::format("the request '{}' took its place before it was answered", annotation->second)};
  }
  return {RequestNews::State::waiting, "no operator has taken it up yet"};
}

}  // namespace trainyard::cli
