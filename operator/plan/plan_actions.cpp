#include "operator/plan/plan_actions.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "common/backoff.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/manifest/worker_pod.hpp"
#include "operator/plan/clean_pods.hpp"
#include "operator/plan/node_avoidance.hpp"
#include "operator/plan/suspension.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using std::chrono::milliseconds;

/// A quota or an admission rule may change at any time, and no event announces the change.
constexpr Backoff refusal_backoff{.initial = milliseconds{1'000}, .max = milliseconds{30'000}};

void check_template(const Observed& observed, Time now, Draft& draft) {
  api::TrainingJob job = observed.job;
  begin_attempt(job.status, observed, now);
  draft.actions.emplace_back(CheckPod{.pod = manifest::build_pod(job, 0, observed.traits, observed.settings)});
}

/// Returns a function that builds the pod of an index. All pods share one copy of its input.
std::function<nlohmann::json(std::int64_t pod_index)> pod_maker(const Observed& observed) {
  struct Ingredients {
    api::TrainingJob job;
    manifest::ClusterTraits traits;
    manifest::Settings settings;
    std::vector<std::string> avoided_host_names;
  };
  const auto held =
      std::make_shared<const Ingredients>(Ingredients{.job = observed.job,
                                                      .traits = observed.traits,
                                                      .settings = observed.settings,
                                                      .avoided_host_names = avoided_host_names(observed)});
  return [held](std::int64_t pod_index) {
    nlohmann::json pod = manifest::build_pod(held->job, pod_index, held->traits, held->settings);
    manifest::avoid_hosts(pod["spec"], held->avoided_host_names);
    return pod;
  };
}

void remove_older_attempts(const Observed& observed, Draft& draft) {
  const auto deletes = delete_pods_of_older_attempts(observed);
  const auto& service = observed.service;
  const bool selects_older = service && service->attempt != 0 && service->attempt != observed.job.status.attempt;
  if (!deletes.empty() && selects_older) draft.actions.emplace_back(DeselectPods{});
  draft.add_actions(deletes);
}

void create_pods(const Observed& observed, const std::vector<Member>& members, Draft& draft) {
  const auto make_pod = pod_maker(observed);
  for (const Member& member : members) {
    if (member.state != MemberState::missing) continue;
    draft.actions.emplace_back(CreatePod{.pod = [make_pod, index = member.pod_index] { return make_pod(index); }});
  }
}

void create_missing(const Observed& observed, const std::vector<Member>& members, Draft& draft) {
  const api::TrainingJobStatus& status = observed.job.status;
  if (!observed.service) draft.actions.emplace_back(CreateService{.service = manifest::build_service(observed.job)});
  if (!status.is_formed) create_pods(observed, members, draft);
  if (!observed.service || observed.service->attempt != status.attempt)
    draft.actions.emplace_back(SelectPods{.attempt = status.attempt});
}

}  // namespace

milliseconds time_until_retry_of_refused(const Observed& observed, Time now) {
  if (!observed.refusal) return {};
  const Time next = observed.refusal->last + backoff_delay(refusal_backoff, observed.refusal->count, 0.5);
  return std::max(milliseconds{0}, next - now);
}

milliseconds time_until_creation(const Observed& observed, Time now) {
  const Time earliest = observed.job.status.restart_not_before.value_or(now);
  return std::max({milliseconds{0}, earliest - now, time_until_retry_of_refused(observed, now)});
}

void plan_actions(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  const api::TrainingJobStatus& status = observed.job.status;
  if (status.phase == api::Phase::suspending || status.phase == api::Phase::suspended) {
    const milliseconds left = time_left_to_save(draft.status, observed, members, now);
    if (left.count() == 0) return draft.add_actions(delete_live_pods(observed));
    draft.add_actions(delete_pods_of_older_attempts(observed));
    return draft.requeue_within(left);
  }
  if (is_active(status)) remove_older_attempts(observed, draft);
  if (const milliseconds wait = time_until_creation(observed, now); wait.count() > 0) return draft.requeue_within(wait);
  if (status.attempt > 0) {
    create_missing(observed, members, draft);
  } else if (!observed.is_template_accepted) {
    check_template(observed, now, draft);
  }
}

}  // namespace trainyard::plan
