#pragma once

#include <chrono>

#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// How long nothing may be asked of the API server yet that it has refused before; 0: go ahead.
[[nodiscard]] std::chrono::milliseconds time_until_asked_again(const Observed& observed, Time now);

/// The same for pods, which also wait for the backoff that the status records.
[[nodiscard]] std::chrono::milliseconds time_until_creation(const Observed& observed, Time now);

}  // namespace trainyard::plan
