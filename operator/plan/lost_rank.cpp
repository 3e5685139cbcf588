#include "operator/plan/lost_rank.hpp"

#include <fmt/format.h>

#include "operator/plan/attempt.hpp"
#include "operator/plan/cause.hpp"
#include "operator/plan/node_avoidance.hpp"
#include "operator/plan/restart_budget.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;

Event restart_event(const api::TrainingJobStatus& status, const AttemptEnd& end) {
  return {.reason = "Restarting",
          .is_warning = true,
          .note = fmt::format("attempt {} begins because rank {} was lost ({}): {}", status.attempt,
                              end.rank.value_or(0), to_string(end.cause), status.message),
          .count = status.restart_count};
}

/// The event when ranks gave up on others for which there was no room yet.
Event waiting_event(const api::TrainingJobStatus& status) {
  return {.reason = "Pending",
          .is_warning = true,
          .note = fmt::format("there was no room for the whole group yet, attempt {} waits for it: {}", status.attempt,
                              status.message)};
}

void restart(const Observed& observed, const AttemptEnd& end, const RestartDecision& decision, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  status.restarts = decision.restarts;
  status.attempts_without_progress = decision.attempts_without_progress;
  if (end.is_charged) status.restart_count += 1;
  status.avoided_nodes = next_avoided_nodes(observed, end);
  status.restart_not_before = now + decision.wait;
  begin_attempt(status, observed, now);
  set_phase(status, Phase::restarting, std::string{to_string(end.cause)}, end.message);
  draft.events.push_back(end.is_charged ? restart_event(status, end) : waiting_event(status));
}

}  // namespace

bool decide_lost_rank(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  if (!is_active(observed.job.status)) return false;
  Judgement judgement = judge_members(observed, members, now);
  draft.requeue_within(judgement.again_in);
  if (!judgement.end) return false;
  draft.pods_believed_gone = std::move(judgement.absent_pods);
  const AttemptEnd& end = *judgement.end;
  // A report that came with the lost rank may hold a new checkpoint, which resets budgets before they are charged.
  api::TrainingJob job = observed.job;
  job.status = draft.status;
  const RestartDecision decision = decide_restart(job, end);
  end_attempt(draft.status, end, now);
  if (decision.failed_reason.empty()) {
    restart(observed, end, decision, now, draft);
  } else {
    draft.status.attempts_without_progress = decision.attempts_without_progress;
    fail_job(draft, decision.failed_reason, decision.failed_message, now);
  }
  return true;
}

}  // namespace trainyard::plan
