#pragma once

#include <nlohmann/json_fwd.hpp>

#include "worker/observe/metric_sums.hpp"

/// Numbers for log lines: six digits are what a person reads, and JSON has no not-a-number.
namespace trainyard::train {

[[nodiscard]] nlohmann::json to_field(double value);
[[nodiscard]] nlohmann::json to_field(const observe::MetricValues& values);

}  // namespace trainyard::train
