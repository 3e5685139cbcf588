#pragma once

#include <chrono>

#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// How long to wait before the API server is asked again for what it has refused; 0: go ahead.
[[nodiscard]] std::chrono::milliseconds time_until_asked_again(const Observed& observed, Time now);

/// As time_until_asked_again(), for pods, which also wait for the backoff that the status records.
[[nodiscard]] std::chrono::milliseconds time_until_creation(const Observed& observed, Time now);

}  // namespace trainyard::plan
