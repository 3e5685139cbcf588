#pragma once

#include <chrono>
#include <optional>

#include "api/training_job.hpp"

namespace trainyard::plan {

/// Until `spec.activeDeadlineSeconds` has passed since the job's start or its last resume; 0: it has. Empty: there is
/// no deadline, or the job is suspended and its clock stands.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_until_deadline(const api::TrainingJob& job, Time now);

}  // namespace trainyard::plan
