#include "operator/plan/suspension.hpp"

#include <algorithm>

#include "operator/plan/attempt.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/member.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using resource::Cause;
using resource::Phase;

void set_suspended(Draft& draft, Time now) {
  set_phase(draft.status, Phase::suspended, "Suspended", "spec.suspend is true");
  // The deadline's clock stands still; resuming starts it anew.
  draft.status.start_time.reset();
  raise_condition(draft.status, condition_suspended, "Suspended", "spec.suspend is true", now);
  draft.events.push_back({.reason = "Suspended", .note = "spec.suspend is true and no pod runs"});
}

}  // namespace

bool decide_suspension(const Observed& observed, Time now, Draft& draft) {
  resource::TrainingJobStatus& status = draft.status;
  const bool is_wanted = observed.job.spec.is_suspended;
  if (status.phase == Phase::suspending) {
    if (!is_wanted) {
      status.start_time.reset();
      begin_attempt(status, observed, now);
      set_phase(status, Phase::starting);
      return true;
    }
    // A pod on a lost node stays until somebody removes the node; its end is not waited for.
    const bool any_runs = std::ranges::any_of(
        observed.pods, [&](const resource::Pod& pod) { return is_live(pod) && !is_on_lost_node(observed, pod); });
    if (any_runs) return false;
    set_suspended(draft, now);
    return true;
  }
  if (status.phase == Phase::suspended) {
    if (is_wanted) return false;
    if (status.attempt > 0) begin_attempt(status, observed, now);
    set_phase(status, status.attempt > 0 ? Phase::starting : Phase::pending);
    clear_condition(status, condition_suspended, "Resumed", now);
    return true;
  }
  if (!is_wanted) return false;
  if (status.attempt == 0) {
    set_suspended(draft, now);
    return true;
  }
  end_attempt(status, Loss{.cause = Cause::suspended, .message = "spec.suspend is true"}, now);
  set_phase(status, Phase::suspending, "Suspended", "spec.suspend is true: pods are asked to save and stop");
  status.restart_not_before.reset();
  clear_condition(status, condition_training, "Suspended", now);
  return true;
}

}  // namespace trainyard::plan
