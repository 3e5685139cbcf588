#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "worker/observe/metric_sums.hpp"
#include "worker/observe/step_times.hpp"
#include "worker/rank/rank_link.hpp"

/// Numbers for log lines. They are rounded to six digits, which is as much as a person reads.
namespace trainyard::train {

/// A number that is not finite becomes "nan", "inf" or "-inf", because JSON has no such numbers.
[[nodiscard]] nlohmann::json to_field(double value);
[[nodiscard]] double to_seconds(std::chrono::nanoseconds duration);
[[nodiscard]] nlohmann::json to_field(const observe::MetricValues& values);

struct StepLine {
  bool is_first_step = false;                 ///< The first step of this attempt.
  bool was_loss_finite = true;                ///< The loss of the previous line was finite.
  std::span<const observe::RankTimes> ranks;  ///< Times of the steps since the previous line, in rank order.
};

/// Milliseconds per step over all ranks as values of log files, such as "stepTimes/data".
[[nodiscard]] observe::MetricValues shown_step_times(std::span<const observe::RankTimes> ranks);

/// Logs `progress` and the metrics `values`, which include "loss", and names a rank that makes the others wait.
void log_step(const rank::RankProgress& progress, const observe::MetricValues& values, const StepLine& line);

}  // namespace trainyard::train
