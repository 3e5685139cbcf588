#pragma once

#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Updates the status from rank 0's last reports in the current attempt, which are the last poll and the termination
/// message: progress, checkpoint, and the conditions Training, NonFiniteLoss, CheckpointFailing and
/// ProgressUnavailable. A later checkpoint than the last one resets the infrastructure restarts and the attempts
/// without progress.
void take_reports(api::TrainingJobStatus& status, const Observed& observed, const std::vector<Member>& members,
                  Time now);

/// "512/900", or "512" if the total is unknown.
[[nodiscard]] std::string step_text(const api::Progress& progress);

}  // namespace trainyard::plan
