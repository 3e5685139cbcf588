#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "operator/plan/plan.hpp"

namespace trainyard::plan {

/// What `spec.cleanPods` removes of a finished job. The pod that made it fail stays for its log, whatever the policy.
[[nodiscard]] std::vector<Action> clean_pods_of_finished_job(const Observed& observed);

/// What an attempt leaves to be removed while the job goes on: live pods of older attempts, and ended ones of all but
/// the last two.
[[nodiscard]] std::vector<Action> delete_pods_of_older_attempts(const Observed& observed);

/// Every live pod: what suspending removes.
[[nodiscard]] std::vector<Action> delete_live_pods(const Observed& observed);

/// Until the job itself is deleted by `spec.ttlSecondsAfterFinished`; 0: now. Empty: never, or it has not finished.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_deletion(const api::TrainingJob& job, Time now);

}  // namespace trainyard::plan
