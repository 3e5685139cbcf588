#include "operator/plan/conditions.hpp"

#include <algorithm>

namespace trainyard::plan {
namespace {

api::Condition* find_condition(api::TrainingJobStatus& status, std::string_view type) {
  const auto found = std::ranges::find(status.conditions, type, &api::Condition::type);
  return found == status.conditions.end() ? nullptr : &*found;
}

void set_condition(api::TrainingJobStatus& status, api::Condition wanted, Time now) {
  api::Condition* condition = find_condition(status, wanted.type);
  if (condition == nullptr) {
    wanted.last_transition = now;
    status.conditions.push_back(std::move(wanted));
    return;
  }
  // `last_transition` is when the condition changed between True and False, not when its message was refreshed.
  wanted.last_transition = condition->is_true == wanted.is_true ? condition->last_transition : now;
  *condition = std::move(wanted);
}

}  // namespace

bool is_condition_true(const api::TrainingJobStatus& status, std::string_view type) {
  const auto found = std::ranges::find(status.conditions, type, &api::Condition::type);
  return found != status.conditions.end() && found->is_true;
}

std::optional<Time> condition_since(const api::TrainingJobStatus& status, std::string_view type) {
  const auto found = std::ranges::find(status.conditions, type, &api::Condition::type);
  return found == status.conditions.end() ? std::nullopt : found->last_transition;
}

void raise_condition(api::TrainingJobStatus& status, std::string_view type, std::string reason,
                     std::string_view message, Time now) {
  set_condition(status,
                {.type = std::string{type},
                 .is_true = true,
                 .reason = std::move(reason),
                 .message = bounded_text(message),
                 .observed_generation = status.observed_generation},
                now);
}

void clear_condition(api::TrainingJobStatus& status, std::string_view type, std::string reason, Time now) {
  if (!is_condition_true(status, type)) return;
  set_condition(status,
                {.type = std::string{type},
                 .is_true = false,
                 .reason = std::move(reason),
                 .message = {},
                 .observed_generation = status.observed_generation},
                now);
}

}  // namespace trainyard::plan
