#include "operator/plan/transition.hpp"

#include <fmt/format.h>

#include "operator/plan/attempt.hpp"
#include "operator/plan/bounded_text.hpp"
#include "operator/plan/conditions.hpp"

namespace trainyard::plan {

using api::Cause;
using api::Phase;

void set_phase(api::TrainingJobStatus& status, Phase phase, std::string reason, const std::string& message) {
  status.phase = phase;
  status.reason = std::move(reason);
  status.message = bounded_text(message);
}

void set_completion(api::TrainingJobStatus& status, Time now) {
  status.completion_time = now;
  clear_running_state(status, "JobEnded", now);
}

void clear_running_state(api::TrainingJobStatus& status, const std::string& reason, Time now) {
  status.restart_not_before.reset();
  if (status.progress) status.progress->estimated_end.reset();
  status.replicas.ready = 0;
  status.replicas.pending = 0;
  status.ready = fmt::format("0/{}", status.replicas.desired);
  clear_condition(status, condition_training, reason, now);
  clear_condition(status, condition_spec_pending, reason, now);
  clear_condition(status, condition_progress_unavailable, reason, now);
}

void fail_job(Draft& draft, const std::string& reason, const std::string& message, Time now) {
  set_phase(draft.status, Phase::failed, reason, message);
  set_completion(draft.status, now);
  raise_condition(draft.status, condition_failed, reason, draft.status.message, now);
  draft.events.push_back(
      {.reason = "Failed", .is_warning = true, .note = fmt::format("{}: {}", reason, draft.status.message)});
}

void restart_uncharged(const Observed& observed, Cause cause, const std::string& message, Time now, Draft& draft) {
  const Phase phase = draft.status.phase == Phase::restarting ? Phase::restarting : Phase::starting;
  end_attempt(draft.status, AttemptEnd{.cause = cause, .message = message}, now);
  begin_attempt(draft.status, observed, now);
  set_phase(draft.status, phase);
}

}  // namespace trainyard::plan
