#include "operator/reconcile/reconciler.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "operator/manifest/names.hpp"
#include "operator/plan/plan.hpp"
#include "operator/reconcile/observe.hpp"

namespace trainyard::reconcile {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds at_once{0};
/// How long the caches get to catch up with what the server has told us.
constexpr milliseconds stale_wait{1'000};

std::string path_of(const api::TrainingJob& job) {
  return fmt::format("{}/{}", job.metadata.name_space, job.metadata.name);
}

}  // namespace

Reconciler::Reconciler(kube::Api& api, const Clock& clock, Caches& caches, const ProgressSource& progress,
                       ReconcilerOptions options)
    : clock_{clock},
      caches_{caches},
      progress_{progress},
      options_{std::move(options)},
      executor_{api, clock, caches, memory_, options_} {}

Result<std::optional<milliseconds>> Reconciler::reconcile(const control::ObjectKey& key) {
  const auto job = caches_.jobs.find(key);
  if (!job) {
    memory_.forget(key);
    return std::nullopt;
  }
  const JobMemory memory = memory_.recall(key, job->metadata.uid);
  if (control::is_older_version(job->metadata.resource_version, memory.written_version)) return catch_up(*job, memory);
  const plan::Observed observed = observe(*job, caches_, memory, progress_, options_);
  const plan::Plan plan = plan::make_plan(observed, clock_.now());
  if (plan.is_stale) return judge_pods_ahead(observed, memory);
  return carry_out(observed, plan);
}

Result<std::optional<milliseconds>> Reconciler::catch_up(const api::TrainingJob& job, const JobMemory& memory) {
  logging::warn("the cached job is out of date", {{"job", path_of(job)}, {"attempt", job.status.attempt}});
  if (auto reread = executor_.reread(job); !reread) {
    if (reread.error().kind == ErrorKind::not_found) return std::nullopt;
    return tl::unexpected(reread.error());
  }
  const control::ObjectKey key{.name_space = job.metadata.name_space, .name = job.metadata.name};
  const auto current = caches_.jobs.find(key);
  if (!current || current->metadata.uid != job.metadata.uid) return at_once;
  if (control::is_older_version(current->metadata.resource_version, memory.written_version)) {
    // The server's newest version is older than our last write: etcd was restored from a backup.
    logging::warn("the API server has lost the last writes of a job: the job is planned for as it is now",
                  {{"job", path_of(job)}, {"attempt", current->status.attempt}});
    memory_.forget(key);
  }
  return at_once;
}

Result<std::optional<milliseconds>> Reconciler::judge_pods_ahead(const plan::Observed& observed,
                                                                 const JobMemory& memory) {
  const api::TrainingJob& job = observed.job;
  const control::ObjectKey key{.name_space = job.metadata.name_space, .name = job.metadata.name};
  if (auto reread = executor_.reread(job); !reread) {
    if (reread.error().kind == ErrorKind::not_found) return std::nullopt;
    return tl::unexpected(reread.error());
  }
  const auto current = caches_.jobs.find(key);
  if (!current || current->metadata.uid != job.metadata.uid) return at_once;
  std::set<std::string> foreign;
  // Foreign pods that are known already stay so as long as they exist.
  for (const resource::Pod& pod : caches_.pods.owned_by(job.metadata.uid)) {
    if (memory.foreign_pods.contains(pod.metadata.uid)) foreign.insert(pod.metadata.uid);
  }
  for (const resource::Pod& pod : observed.pods) {
    if (manifest::attempt_of(*current, pod) <= current->status.attempt) continue;
    foreign.insert(pod.metadata.uid);
    logging::warn("a pod has the name of an attempt that has not begun, and is ignored",
                  {{"job", path_of(job)}, {"attempt", current->status.attempt}, {"pod", pod.metadata.name}});
  }
  memory_.note_foreign_pods(key, job.metadata.uid, std::move(foreign));
  return at_once;  // Either the job is newer now, or there are fewer pods to observe.
}

Result<std::optional<milliseconds>> Reconciler::carry_out(const plan::Observed& observed, const plan::Plan& plan) {
  const api::TrainingJob& job = observed.job;
  const auto gone = TRY(executor_.are_gone(job, plan.pods_believed_gone));
  if (!gone) return stale_wait;
  if (plan.status) {
    if (auto written = executor_.write_status(job, *plan.status); !written) {
      if (written.error().kind == ErrorKind::conflict) return has_moved(job) ? at_once : stale_wait;
      if (written.error().kind == ErrorKind::not_found) return std::nullopt;
      return tl::unexpected(written.error());
    }
  }
  const auto acted = executor_.act(job, plan.actions);
  // The status that the events describe is stored, even if an action failed.
  executor_.record_events(job, plan.events);
  TRY(acted);
  const bool is_idle = !plan.status && plan.actions.empty();
  if (is_idle && plan.requeue_after != at_once) return plan.requeue_after;
  // The actions may have made the next decision possible. If they changed nothing that is observed, the next plan would
  // be the same, and repeating it at once would be an endless loop.
  if (has_changed(observed)) return at_once;
  return fail(ErrorKind::conflict,
              "the plan was carried out and changed nothing that the next plan rests on: trying again later");
}

bool Reconciler::has_moved(const api::TrainingJob& job) const {
  const auto cached = caches_.jobs.find({.name_space = job.metadata.name_space, .name = job.metadata.name});
  return !cached || cached->metadata.uid != job.metadata.uid ||
         cached->metadata.resource_version != job.metadata.resource_version;
}

bool Reconciler::has_changed(const plan::Observed& before) const {
  const api::TrainingJob& job = before.job;
  if (has_moved(job)) return true;
  const JobMemory memory =
      memory_.recall({.name_space = job.metadata.name_space, .name = job.metadata.name}, job.metadata.uid);
  const plan::Observed now = observe(job, caches_, memory, progress_, options_);
  return now.pods != before.pods || now.service != before.service || now.refusal != before.refusal ||
         now.create_failure != before.create_failure || now.is_template_accepted != before.is_template_accepted;
}

}  // namespace trainyard::reconcile
