#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>

#include "worker/observe/metric_sums.hpp"
#include "worker/rank/rank_link.hpp"

/// Numbers for log lines: six digits are what a person reads, and JSON has no not-a-number.
namespace trainyard::train {

[[nodiscard]] nlohmann::json to_field(double value);
/// Rounded to six digits, which are what a person reads.
[[nodiscard]] double to_seconds(std::chrono::nanoseconds duration);
[[nodiscard]] nlohmann::json to_field(const observe::MetricValues& values);

struct StepLine {
  bool is_first_step = false;   ///< Of this attempt.
  bool was_loss_finite = true;  ///< At the line before.
};

/// Writes what is known after the step that `progress` names. `values` have "loss".
void log_step(const rank::RankProgress& progress, const observe::MetricValues& values, const StepLine& line);

}  // namespace trainyard::train
