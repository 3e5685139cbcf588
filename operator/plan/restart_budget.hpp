#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "api/training_job.hpp"
#include "operator/plan/cause.hpp"

namespace trainyard::plan {

/// What a loss does to the job's budgets.
struct RestartDecision {
  api::RestartCounts restarts;                 ///< After the charge.
  std::int64_t attempts_without_progress = 0;  ///< After this end.
  std::chrono::milliseconds wait{0};           ///< Before the next attempt.
  /// Why there is no next attempt, one CamelCase word: DoNotRestart, ApplicationBudget, InfrastructureBudget,
  /// NoProgress. Empty: there is one.
  std::string failed_reason;
  std::string failed_message;
  bool operator==(const RestartDecision&) const = default;
};

/// `spec.restart` applied. The first infrastructure loss since the last checkpoint is answered at once, for it says
/// nothing about the next; every later loss, and any of the application's, waits for backoff. Jitter is a function of
/// the job's UID and attempt.
[[nodiscard]] RestartDecision decide_restart(const api::TrainingJob& job, const AttemptEnd& end);

}  // namespace trainyard::plan
