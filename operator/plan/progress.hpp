#pragma once

#include <string>
#include <vector>

#include "operator/plan/member.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Takes what rank 0 said last in the current attempt into the status, when it was polled and in its termination
/// message: progress, checkpoint, and the conditions Training, NonFiniteLoss, CheckpointFailing and
/// ProgressUnavailable. A checkpoint beyond the last one gives back the infrastructure budget, backoff and the attempts
/// without progress.
void take_reports(api::TrainingJobStatus& status, const Observed& observed, const std::vector<Member>& members,
                  Time now);

/// "512/900", or "512" where the total is unknown.
[[nodiscard]] std::string step_text(const api::Progress& progress);

}  // namespace trainyard::plan
