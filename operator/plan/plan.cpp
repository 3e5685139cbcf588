#include "operator/plan/plan.hpp"

#include <algorithm>

#include "operator/manifest/names.hpp"
#include "operator/plan/clean_pods.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/decide.hpp"
#include "operator/plan/deletion.hpp"
#include "operator/plan/draft.hpp"
#include "operator/plan/member.hpp"
#include "operator/plan/phase.hpp"
#include "operator/plan/plan_actions.hpp"
#include "operator/plan/progress.hpp"
#include "operator/plan/request_status.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

void plan_finished(const Observed& observed, Time now, Draft& draft) {
  draft.status.observed_generation = observed.job.metadata.generation;
  const auto left = time_until_deletion(observed.job, now);
  if (left && left->count() == 0) {
    draft.actions.emplace_back(DeleteJob{.uid = observed.job.metadata.uid});
    return;
  }
  draft.requeue_within(left);
  take_checkpoint_requests(draft.status, observed, members_of(observed), now);
  draft.add_actions(clean_pods_of_finished_job(observed));
  plan_finalizer(observed, now, draft);
}

void plan_unfinished(const Observed& observed, Time now, Draft& draft) {
  draft.status.selector = manifest::job_selector(observed.job);
  draft.status.observed_generation = observed.job.metadata.generation;
  const std::vector<Member> members = members_of(observed);
  take_reports(draft.status, observed, members, now);
  take_checkpoint_requests(draft.status, observed, members, now);
  if (draft.status.attempt > 0) count_members(members, draft.status);
  if (decide(observed, members, now, draft)) return draft.requeue_within(std::chrono::milliseconds{0});
  update_phase(observed, members, now, draft);
  plan_actions(observed, members, now, draft);
  plan_finalizer(observed, now, draft);
}

/// Time until a status is written that differs only in progress; 0: the status differs in more, or is due.
std::chrono::milliseconds time_until_write(const Observed& observed, const api::TrainingJobStatus& status, Time now) {
  api::TrainingJobStatus advanced = observed.job.status;
  if (!observed.status_written || !advanced.progress) return {};
  advanced.progress = status.progress;
  advanced.step_text = status.step_text;
  if (api::to_json(advanced) != api::to_json(status)) return {};
  return std::max(std::chrono::milliseconds{0}, *observed.status_written + observed.settings.progress_interval - now);
}

}  // namespace

Plan make_plan(const Observed& observed, Time now) {
  const api::TrainingJob& job = observed.job;
  // Kubernetes deletes owned objects together with their owner.
  if (job.metadata.deletion_time && !has_finalizer(job)) return {};
  const bool is_stale = std::ranges::any_of(
      observed.pods, [&](const resource::Pod& pod) { return manifest::attempt_of(job, pod) > job.status.attempt; });
  if (is_stale) return {.is_stale = true};
  Draft draft{.status = job.status};
  // The API server may accept the next status. If it refuses that too, status_despite_refusal() raises the condition
  // again.
  clear_condition(draft.status, condition_status_refused, "Accepted", now);
  if (job.metadata.deletion_time) {
    plan_deletion(observed, now, draft);
  } else if (is_finished(job.status)) {
    plan_finished(observed, now, draft);
  } else {
    plan_unfinished(observed, now, draft);
  }
  // Compares the stored forms, in which times are whole seconds.
  bool is_written = api::to_json(draft.status) != api::to_json(job.status);
  if (is_written) {
    const auto wait = time_until_write(observed, draft.status, now);
    is_written = wait.count() == 0;
    if (!is_written) draft.requeue_within(wait);
  }
  Plan plan{.pods_believed_gone = std::move(draft.pods_believed_gone),
            .actions = std::move(draft.actions),
            .events = std::move(draft.events),
            .requeue_after = draft.requeue_after};
  if (is_written) plan.status = std::move(draft.status);
  return plan;
}

}  // namespace trainyard::plan
