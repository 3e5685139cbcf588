#include "operator/plan/refused_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "operator/plan/conditions.hpp"

namespace trainyard::plan {
namespace {

using api::CheckpointRequest;
using api::Condition;

std::optional<CheckpointRequest> without_texts(const std::optional<CheckpointRequest>& request) {
  if (!request) return std::nullopt;
  return CheckpointRequest{.id = request->id, .state = request->state, .step = request->step, .time = request->time};
}

/// Takes the condition from `stored`, which keeps the time since when the status is refused.
void keep_condition(api::TrainingJobStatus& status, const api::TrainingJobStatus& stored, std::string_view type) {
  const auto found = std::ranges::find(stored.conditions, type, &Condition::type);
  if (found == stored.conditions.end()) return;
  std::erase_if(status.conditions, [&](const Condition& condition) { return condition.type == type; });
  status.conditions.push_back(*found);
}

}  // namespace

api::TrainingJobStatus status_despite_refusal(const api::TrainingJobStatus& wanted,
                                              const api::TrainingJobStatus& stored, std::string_view refusal,
                                              Time now) {
  api::TrainingJobStatus status = wanted;
  status.message.clear();
  status.step_text.clear();
  status.progress.reset();
  if (wanted.checkpoint) status.checkpoint = api::CheckpointStatus{.step = wanted.checkpoint->step};
  status.checkpoint_request = without_texts(wanted.checkpoint_request);
  status.suspend_request = without_texts(wanted.suspend_request);
  status.avoided_nodes = stored.avoided_nodes;
  for (api::AttemptRecord& attempt : status.attempts) {
    attempt.node.clear();
    attempt.message.clear();
  }
  for (Condition& condition : status.conditions) condition.message.clear();
  keep_condition(status, stored, condition_status_refused);
  raise_condition(
      status, condition_status_refused, "Invalid",
      fmt::format("the API server refused the whole status, so only decisions and counters are stored: {}", refusal),
      now);
  return status;
}

}  // namespace trainyard::plan
