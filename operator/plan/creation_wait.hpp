#pragma once

#include <chrono>

#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Time until the next try after a refusal of the API server; 0: now.
[[nodiscard]] std::chrono::milliseconds time_until_asked_again(const Observed& observed, Time now);

/// Time until the next create of a pod, which also waits for the backoff in the status; 0: now.
[[nodiscard]] std::chrono::milliseconds time_until_creation(const Observed& observed, Time now);

}  // namespace trainyard::plan
