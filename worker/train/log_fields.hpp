#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>

#include "worker/observe/metric_sums.hpp"

/// Numbers for log lines: six digits are what a person reads, and JSON has no not-a-number.
namespace trainyard::train {

[[nodiscard]] nlohmann::json to_field(double value);
/// Rounded to six digits, which are what a person reads.
[[nodiscard]] double to_seconds(std::chrono::nanoseconds duration);
[[nodiscard]] nlohmann::json to_field(const observe::MetricValues& values);

}  // namespace trainyard::train
