#pragma once

#include <string>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// Moves the job to `phase`. `reason` is one CamelCase word, `message` is cut to what the status holds.
void set_phase(api::TrainingJobStatus& status, api::Phase phase, std::string reason = {},
               const std::string& message = {});

/// Clears what only a running job has: counts of running pods, backoff, the estimated end, conditions such as Training.
/// Pods that still run are not counted, because they are being deleted.
void clear_running_state(api::TrainingJobStatus& status, const std::string& reason, Time now);

/// Sets what Succeeded and Failed share: the completion time, and no running state.
void set_completion(api::TrainingJobStatus& status, Time now);

/// Ends the job as Failed, with a condition and an event that say why.
void fail_job(Draft& draft, const std::string& reason, const std::string& message, Time now);

/// Ends the attempt and begins the next one without a charge to any budget.
void restart_uncharged(const Observed& observed, api::Cause cause, const std::string& message, Time now, Draft& draft);

}  // namespace trainyard::plan
