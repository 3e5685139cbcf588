#pragma once

#include <string>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// Moves the draft's job to `phase`. `reason` is one CamelCase word, `message` is cut to what the status holds.
void set_phase(api::TrainingJobStatus& status, api::Phase phase, std::string reason = {},
               const std::string& message = {});

/// Nothing of the job trains any more, or will. Pods that still run are not counted: they are on their way out.
void clear_running_state(api::TrainingJobStatus& status, const std::string& reason, Time now);

/// What both ends of a job have in common.
void set_completion(api::TrainingJobStatus& status, Time now);

/// The job ends as Failed, and says why.
void fail_job(Draft& draft, const std::string& reason, const std::string& message, Time now);

/// A new attempt that nobody is blamed for.
void restart_uncharged(const Observed& observed, api::Cause cause, const std::string& message, Time now, Draft& draft);

}  // namespace trainyard::plan
