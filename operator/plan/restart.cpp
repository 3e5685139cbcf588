#include "operator/plan/restart.hpp"

#include <fmt/format.h>

#include "api/contract.hpp"
#include "common/backoff.hpp"
#include "operator/plan/cause.hpp"
#include "operator/plan/node_avoidance.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;

/// Jitter in [0, 1): equal for all plans of one attempt, different for jobs that lose ranks at the same time.
double jitter_of(const api::TrainingJob& job) {
  std::uint64_t hash = static_cast<std::uint64_t>(job.status.attempt) * 0x9e3779b97f4a7c15;
  for (const char byte : job.metadata.uid) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return static_cast<double>(hash >> 11) / static_cast<double>(std::uint64_t{1} << 53);
}

void fail_when_spent(const api::TrainingJob& job, const AttemptEnd& end, RestartDecision& decision) {
  const api::RestartSpec& restart = job.spec.restart;
  const auto refuse = [&](const char* reason, std::string message) {
    decision.failed_reason = reason;
    decision.failed_message = fmt::format("{}; {}", end.message, message);
  };
  if (end.is_final) return refuse("DoNotRestart", "not restarted, since the worker says that a restart cannot help");
  const bool makes_checkpoints = job.spec.checkpoint.has_value();
  if (makes_checkpoints && end.cause == api::Cause::application && end.is_charged &&
      decision.attempts_without_progress >= restart.no_progress_attempts) {
    return refuse("NoProgress", fmt::format("{} attempts in a row failed by themselves without a new checkpoint "
                                            "(spec.restart.noProgressAttempts)",
                                            decision.attempts_without_progress));
  }
  if (decision.restarts.application > restart.application.max) {
    if (restart.application.max == 0)
      return refuse("ApplicationBudget",
                    "no restart for failures of the application is allowed (spec.restart.application.max: 0)");
    return refuse("ApplicationBudget", fmt::format("all {} restarts for failures of the application are used up "
                                                   "(spec.restart.application.max)",
                                                   restart.application.max));
  }
  if (decision.restarts.infrastructure > restart.infrastructure.max) {
    return refuse("InfrastructureBudget",
                  fmt::format("all {} restarts for lost pods and nodes since the last checkpoint are used up "
                              "(spec.restart.infrastructure.max)",
                              restart.infrastructure.max));
  }
}

Event restart_event(const api::TrainingJobStatus& status, const AttemptEnd& end) {
  return {.reason = "Restarting",
          .is_warning = true,
          .note = fmt::format("attempt {} begins because pod {} was lost ({}): {}", status.attempt,
                              end.pod_index.value_or(0), to_string(end.cause), status.message),
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

RestartDecision decide_restart(const api::TrainingJob& job, const AttemptEnd& end) {
  const api::TrainingJobStatus& status = job.status;
  RestartDecision decision{.restarts = status.restarts, .attempts_without_progress = status.attempts_without_progress};
  const bool is_application = end.cause == api::Cause::application;
  const std::int64_t failures_before = status.restarts.infrastructure + status.attempts_without_progress;
  if (end.is_charged) {
    (is_application ? decision.restarts.application : decision.restarts.infrastructure) += 1;
    if (is_application) decision.attempts_without_progress += 1;
  }
  fail_when_spent(job, end, decision);
  if (!decision.failed_reason.empty()) {
    // A restart that never comes is not counted as one.
    decision.restarts = status.restarts;
    return decision;
  }
  const Backoff backoff{.initial = job.spec.restart.backoff.initial, .max = job.spec.restart.backoff.max};
  decision.wait = backoff_delay(backoff, is_application ? failures_before + 1 : failures_before, jitter_of(job));
  return decision;
}

bool decide_lost_rank(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  if (!is_active(observed.job.status)) return false;
  Judgement judgement = judge_members(observed, members, now);
  draft.requeue_within(judgement.requeue_after);
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
