#pragma once

#include "worker/observe/metric_sums.hpp"
#include "worker/rank/rank_link.hpp"

/// A training's numbers in the log of rank 0, which speaks for the steps.
namespace trainyard::train {

struct StepLine {
  bool is_first_step = false;   ///< Of this attempt.
  bool was_loss_finite = true;  ///< At the line before.
};

/// Writes what is known after the step that `progress` names. `values` have "loss".
void log_step(const rank::RankProgress& progress, const observe::MetricValues& values, const StepLine& line);

}  // namespace trainyard::train
