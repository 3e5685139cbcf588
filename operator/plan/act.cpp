#include "operator/plan/act.hpp"

#include "operator/plan/attempt.hpp"
#include "operator/plan/clean_up.hpp"
#include "operator/plan/creation_wait.hpp"
#include "operator/plan/pod.hpp"
#include "operator/plan/service.hpp"
#include "operator/plan/suspension.hpp"

namespace trainyard::plan {
namespace {

using std::chrono::milliseconds;

void check_template(const Observed& observed, Time now, Draft& draft) {
  resource::TrainingJob job = observed.job;
  begin_attempt(job.status, observed, now);
  draft.actions.emplace_back(CheckPod{.pod = build_pod(job, 0, observed.traits, observed.settings)});
}

void create_missing(const Observed& observed, const std::vector<Member>& members, Draft& draft) {
  if (!observed.service) draft.actions.emplace_back(CreateService{.service = build_service(observed.job)});
  if (observed.job.status.is_formed) return;
  for (const Member& member : members) {
    if (member.state != MemberState::missing) continue;
    draft.actions.emplace_back(CreatePod{
        .rank = member.rank, .pod = build_pod(observed.job, member.rank, observed.traits, observed.settings)});
  }
}

}  // namespace

void plan_actions(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  const resource::TrainingJobStatus& status = observed.job.status;
  if (status.phase == resource::Phase::suspending || status.phase == resource::Phase::suspended) {
    const milliseconds left = time_left_to_save(draft.status, observed, members, now);
    if (left.count() == 0) return draft.act(delete_live_pods(observed));
    draft.act(clean_up_older_attempts(observed));
    return draft.look_again_in(left);
  }
  if (is_active(status)) draft.act(clean_up_older_attempts(observed));
  if (const milliseconds wait = time_until_creation(observed, now); wait.count() > 0) return draft.look_again_in(wait);
  if (status.attempt > 0) {
    create_missing(observed, members, draft);
  } else if (!observed.is_template_accepted) {
    check_template(observed, now, draft);
  }
}

}  // namespace trainyard::plan
