#include "operator/plan/decide.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/spec_hash.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/deletion.hpp"
#include "operator/plan/node_avoidance.hpp"
#include "operator/plan/restart.hpp"
#include "operator/plan/suspension.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;

/// Only before pods are made from the template: an edit of a running job is checked when its attempt begins.
bool decide_invalid_template(const Observed& observed, Time now, Draft& draft) {
  const api::TrainingJobStatus& status = observed.job.status;
  const bool is_forming = status.attempt == 0 || (is_active(status) && !status.is_formed);
  if (!is_forming || observed.job.spec.is_suspended) return false;
  std::string fault = manifest::template_fault(observed.job.spec, observed.settings);
  if (fault.empty() && observed.refusal && observed.refusal->kind == ErrorKind::invalid)
    fault = observed.refusal->message;
  if (fault.empty()) return false;
  raise_condition(draft.status, condition_invalid_template, "Refused", fault, now);
  end_attempt(draft.status, fault, now);
  fail_job(draft, "InvalidTemplate", fault, now);
  return true;
}

bool decide_success(const std::vector<Member>& members, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  status.succeeded_ranks.clear();
  for (const Member& member : members) {
    if (member.state == MemberState::succeeded) status.succeeded_ranks.push_back(member.pod_index);
  }
  if (status.attempt == 0 || members.empty() || status.succeeded_ranks.size() != members.size()) return false;
  status.is_formed = true;
  set_phase(status, Phase::succeeded);
  set_completion(status, now);
  end_attempt(status, "all pods ended with 0", now);
  raise_condition(status, condition_complete, "AllRanksSucceeded",
                  fmt::format("all {} pods ended with 0", members.size()), now);
  draft.events.push_back(
      {.reason = "Succeeded",
       .note = fmt::format("all {} pods ended with 0 in attempt {}", members.size(), status.attempt)});
  return true;
}

bool decide_deadline(const Observed& observed, Time now, Draft& draft) {
  const auto left = time_until_deadline(observed.job, now);
  if (!left) return false;
  if (left->count() > 0) {
    draft.requeue_within(left);
    return false;
  }
  const std::string message = fmt::format("the job was active for longer than spec.activeDeadlineSeconds ({})",
                                          observed.job.spec.active_deadline->count());
  end_attempt(draft.status, message, now);
  fail_job(draft, "DeadlineExceeded", message, now);
  return true;
}

bool decide_forgiveness(const Observed& observed, Time now, Draft& draft) {
  if (!is_active(observed.job.status)) return false;
  const auto left = time_until_nodes_are_forgiven(observed.job.status, now);
  if (!left) return false;
  if (left->count() > 0) {
    draft.requeue_within(left);
    return false;
  }
  restart_uncharged(observed, Cause::infrastructure,
                    fmt::format("no room for the group without {}: avoided nodes are tried again",
                                fmt::join(observed.job.status.avoided_nodes, ", ")),
                    now, draft);
  draft.status.avoided_nodes.clear();
  return true;
}

bool decide_first_attempt(const Observed& observed, Time now, Draft& draft) {
  if (observed.job.status.attempt > 0 || observed.job.spec.is_suspended || !observed.is_template_accepted) return false;
  // From the first attempt on there may be checkpoints to clean up.
  if (!has_required_finalizer(observed.job)) return false;
  begin_attempt(draft.status, observed, now);
  set_phase(draft.status, Phase::starting);
  return true;
}

}  // namespace

bool decide_edit(const Observed& observed, Time now, Draft& draft) {
  const api::TrainingJob& job = observed.job;
  if (!is_active(job.status) || job.status.attempt_generation == job.metadata.generation) return false;
  const std::string wanted = manifest::spec_hash(job.spec);
  bool has_pods = false;
  bool is_edited = false;
  for (const resource::Pod& pod : observed.pods) {
    if (manifest::attempt_of(job, pod) != job.status.attempt) continue;
    has_pods = true;
    is_edited = is_edited || manifest::spec_hash_of(pod) != wanted;
  }
  if (is_edited && job.status.phase != Phase::running) {
    restart_uncharged(observed, Cause::spec_changed, "the spec was changed while the group formed", now, draft);
    return true;
  }
  if (is_edited) {
    raise_condition(draft.status, condition_spec_pending, "AttemptRuns",
                    "the spec was changed: the change takes effect with the next attempt", now);
    return false;
  }
  clear_condition(draft.status, condition_spec_pending, "Reverted", now);
  draft.status.attempt_generation = job.metadata.generation;
  if (has_pods || job.status.is_formed) return false;
  // No pod was made from the old spec yet: the attempt takes the new spec, and records that before its first pod.
  draft.status.replicas = {.desired = job.spec.replicas, .pending = job.spec.replicas};
  draft.status.worker_image =
      manifest::needs_worker_image(job.spec) ? manifest::worker_image(job.spec, observed.settings) : std::string{};
  return true;
}

std::optional<std::chrono::milliseconds> time_until_deadline(const api::TrainingJob& job, Time now) {
  // The clock stops when the suspension begins, so that a job cannot fail while its pods save. It starts from zero when
  // the job resumes.
  if (job.status.phase == api::Phase::suspending || job.status.phase == api::Phase::suspended) return std::nullopt;
  if (!job.spec.active_deadline || !job.status.start_time) return std::nullopt;
  return std::max(std::chrono::milliseconds{0}, *job.status.start_time + *job.spec.active_deadline - now);
}

bool decide(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  return decide_success(members, now, draft) || decide_suspension(observed, members, now, draft) ||
         decide_deadline(observed, now, draft) || decide_invalid_template(observed, now, draft) ||
         decide_lost_rank(observed, members, now, draft) || decide_edit(observed, now, draft) ||
         decide_forgiveness(observed, now, draft) || decide_first_attempt(observed, now, draft);
}

}  // namespace trainyard::plan
