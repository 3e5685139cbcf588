#include "operator/plan/clean_pods.hpp"

#include <algorithm>
#include <vector>

#include "operator/manifest/names.hpp"
#include "operator/plan/member.hpp"

namespace trainyard::plan {
namespace {

using api::CleanPods;

template <typename Predicate>
std::vector<Action> delete_pods_where(const Observed& observed, Predicate is_wanted) {
  std::vector<Action> actions;
  for (const resource::Pod& pod : observed.pods) {
    if (pod.metadata.deletion_time || !is_wanted(pod)) continue;
    actions.emplace_back(DeletePod{.name = pod.metadata.name, .uid = pod.metadata.uid});
  }
  return actions;
}

/// True for the pod that made the job fail.
bool is_culprit(const api::TrainingJobStatus& status, const resource::Pod& pod) {
  return status.phase == api::Phase::failed && !status.attempts.empty() && status.attempts.back().cause &&
         status.attempts.back().pod == pod.metadata.name;
}

}  // namespace

std::vector<Action> clean_pods_of_finished_job(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  if (job.spec.clean_pods == CleanPods::none) {
    // Pods that still run after their job has failed train for nobody.
    return job.status.phase == api::Phase::failed ? delete_live_pods(observed) : std::vector<Action>{};
  }
  auto actions = delete_pods_where(observed, [&](const resource::Pod& pod) {
    // A pod may be live although its worker has ended, because a sidecar still runs.
    return is_live(pod) || (job.spec.clean_pods == CleanPods::all && !is_culprit(job.status, pod));
  });
  if (observed.service && !observed.service->metadata.deletion_time) {
    const api::Metadata& service = observed.service->metadata;
    actions.emplace_back(DeleteService{.name = service.name, .uid = service.uid});
  }
  return actions;
}

std::vector<Action> delete_pods_of_older_attempts(const Observed& observed) {
  const api::TrainingJob& job = observed.job;
  return delete_pods_where(observed, [&](const resource::Pod& pod) {
    return manifest::attempt_of(job, pod) < (is_live(pod) ? job.status.attempt : job.status.attempt - 1);
  });
}

std::vector<Action> delete_live_pods(const Observed& observed) {
  return delete_pods_where(observed, [](const resource::Pod& pod) { return is_live(pod); });
}

std::optional<std::chrono::milliseconds> time_until_deletion(const api::TrainingJob& job, Time now) {
  if (!job.spec.ttl_after_finished || !job.status.completion_time) return std::nullopt;
  return std::max(std::chrono::milliseconds{0}, *job.status.completion_time + *job.spec.ttl_after_finished - now);
}

}  // namespace trainyard::plan
