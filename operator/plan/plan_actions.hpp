#pragma once

#include <chrono>
#include <vector>

#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Adds to `draft` the actions that make the job's objects what its stored status says.
void plan_actions(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft);

/// Time until the next try after a refusal of the API server; 0: now.
[[nodiscard]] std::chrono::milliseconds time_until_retry_of_refused(const Observed& observed, Time now);

/// Time until the next create of a pod, which also waits for the backoff in the status; 0: now.
[[nodiscard]] std::chrono::milliseconds time_until_creation(const Observed& observed, Time now);

}  // namespace trainyard::plan
