#pragma once

#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Takes rank 0's last report of this attempt into the status: progress, checkpoint, and the conditions Training,
/// NonFiniteLoss and ProgressUnavailable. A checkpoint beyond the last one gives back the infrastructure budget,
/// backoff and the attempts without progress.
void take_report(resource::TrainingJobStatus& status, const Observed& observed, Time now);

/// "512/900", or "512" where the total is unknown.
[[nodiscard]] std::string step_text(const resource::Progress& progress);

}  // namespace trainyard::plan
