#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/plan/plan.hpp"

namespace trainyard::plan {

/// A plan while the policies write it.
struct Draft {
  api::TrainingJobStatus status;
  std::vector<Action> actions;
  std::vector<Event> events;
  std::vector<std::string> pods_believed_gone;
  std::optional<std::chrono::milliseconds> requeue_after;

  /// Plans for the job again after `wait`, or earlier if another policy asks for it.
  void requeue_within(std::chrono::milliseconds wait) {
    requeue_after = requeue_after ? std::min(*requeue_after, wait) : wait;
  }
  void requeue_within(const std::optional<std::chrono::milliseconds>& wait) {
    if (wait) requeue_within(*wait);
  }
  void add_actions(std::vector<Action> more) {
    actions.insert(actions.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
};

}  // namespace trainyard::plan
