#pragma once

#include <cstdint>
#include <string>

#include "operator/plan/cause.hpp"
#include "operator/plan/draft.hpp"
#include "operator/plan/observed.hpp"

namespace trainyard::plan {

/// Largest number of attempt records in the status.
inline constexpr std::size_t attempt_records_max = 10;

/// Makes the next attempt the current one, bound to the job's present spec generation. Nothing of the attempt exists
/// yet.
void begin_attempt(api::TrainingJobStatus& status, const Observed& observed, Time now);

/// Ends the current attempt's record.
void end_attempt(api::TrainingJobStatus& status, const AttemptEnd& end, Time now);
/// Ends the record of an attempt that no member ended: it succeeded, or its job ended.
void end_attempt(api::TrainingJobStatus& status, const std::string& message, Time now);

/// The record of the attempt before the current one; null if there is none.
[[nodiscard]] const api::AttemptRecord* previous_attempt(const api::TrainingJobStatus& status);

/// True when pods of the current attempt are wanted: the job has started, has not ended and is not suspended.
[[nodiscard]] bool is_active(const api::TrainingJobStatus& status);
[[nodiscard]] bool is_finished(const api::TrainingJobStatus& status);

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
