#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "operator/plan/cause.hpp"
#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {

/// Effect of an attempt's end on the job's budgets.
struct RestartDecision {
  api::RestartCounts restarts;                 ///< Counts after the charge.
  std::int64_t attempts_without_progress = 0;  ///< This attempt included.
  std::chrono::milliseconds wait{0};           ///< Before the next attempt.
  /// Why there is no next attempt: DoNotRestart, ApplicationBudget, InfrastructureBudget or NoProgress. Empty: there is
  /// a next attempt.
  std::string failed_reason;
  std::string failed_message;
  bool operator==(const RestartDecision&) const = default;
};

/// Applies `spec.restart` to the end of an attempt. The cause `application` is paid from spec.restart.application,
/// `infrastructure` and `deleted` from spec.restart.infrastructure. The first failure since the last checkpoint,
/// unless the application caused it, is followed by a restart at once; every other failure waits for backoff. The
/// backoff's jitter is a function of the job's UID and attempt.
///
/// A new rule for restarts is a field of api::RestartSpec (api/training_job.hpp) that is applied here. The field is
/// read in api/training_job.cpp and described in crds/, of which charts/trainyard/files has a copy. Its cases go into
/// tests/operator/plan/restart_test.cpp. A rule that needs to know more of how an attempt ended has a new field of
/// AttemptEnd, which cause.cpp fills; one that counts across attempts has a new field of api::TrainingJobStatus. All
/// steps: docs/extending.md, "A restart policy".
[[nodiscard]] RestartDecision decide_restart(const api::TrainingJob& job, const AttemptEnd& end);

/// If a member of the current attempt is lost, begins the next attempt, or fails the job when a restart cannot help or
/// no restart is left. cause.hpp finds the culprit, and decide_restart() says whether a restart is left.
[[nodiscard]] bool decide_lost_rank(const Observed& observed, const std::vector<Member>& members, Time now,
                                    Draft& draft);

}  // namespace trainyard::plan
