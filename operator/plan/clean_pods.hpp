#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "operator/plan/plan.hpp"

namespace trainyard::plan {

/// The deletions of pods and service after a job has finished, by `spec.cleanPods`. The ended pod that made the job
/// fail stays for its log under every policy.
[[nodiscard]] std::vector<Action> clean_pods_of_finished_job(const Observed& observed);

/// The deletions of live pods of older attempts, and of ended pods of all attempts but the last two.
[[nodiscard]] std::vector<Action> delete_pods_of_older_attempts(const Observed& observed);

/// The deletions of all live pods.
[[nodiscard]] std::vector<Action> delete_live_pods(const Observed& observed);

/// Time until `spec.ttlSecondsAfterFinished` deletes the job; 0: now. Empty if it never does, or the job has not
/// finished.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_deletion(const api::TrainingJob& job, Time now);

}  // namespace trainyard::plan
