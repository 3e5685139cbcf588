#include "operator/manager/progress_poller.hpp"

#include <algorithm>

#include "operator/manifest/names.hpp"
#include "operator/plan/request_status.hpp"

namespace trainyard::manager {
namespace {

using api::Phase;
using control::ObjectKey;

bool is_over(const api::TrainingJob& job) {
  return job.status.phase == Phase::succeeded || job.status.phase == Phase::failed || job.metadata.deletion_time;
}

/// The running pod of rank 0 in the job's current attempt; empty if there is none.
std::optional<resource::Pod> running_rank_0(const reconcile::Caches& caches, const api::TrainingJob& job) {
  auto pod =
      caches.pods.find({.name_space = job.metadata.name_space, .name = manifest::pod_name(job, job.status.attempt, 0)});
  const bool is_running = pod && manifest::is_pod_of(*pod, job) && pod->phase == resource::PodPhase::running &&
                          !pod->metadata.deletion_time;
  return is_running ? std::move(pod) : std::nullopt;
}

/// Stores `answer` in the report. Returns true if that changes the report.
bool note_answer(plan::ProgressReport& report, const api::CheckpointRequest& answer) {
  const auto known = std::ranges::find(report.requests, answer.id, &api::CheckpointRequest::id);
  if (known == report.requests.end()) {
    report.requests.push_back(answer);
    return true;
  }
  if (*known == answer) return false;
  *known = answer;
  return true;
}

}  // namespace

ProgressPoller::ProgressPoller(const reconcile::Caches& caches, const Clock& clock, manifest::ClusterTraits traits,
                               CallRank call, OnReport on_report, PollerOptions options)
    : caches_{caches},
      clock_{clock},
      traits_{std::move(traits)},
      client_{std::move(call), options.deadline},
      on_report_{std::move(on_report)},
      options_{options},
      queue_{{.backoff = {.initial = options.interval, .max = options.silent_interval_max}}},
      late_queue_{{.backoff = {.initial = options.interval, .max = options.silent_interval_max}}} {
  for (int worker = 0; worker < options_.workers; ++worker) {
    for (control::WorkQueue* queue : {&queue_, &late_queue_}) {
      threads_.emplace_back([this, queue](const std::stop_token& stop) { run(*queue, stop); });
    }
  }
}

ProgressPoller::~ProgressPoller() {
  // Asks all threads to stop before the first is joined.
  for (std::jthread& thread : threads_) thread.request_stop();
}

void ProgressPoller::track(const ObjectKey& job) {
  {
    const std::scoped_lock lock{mutex_};
    if (!tracked_.try_emplace(job).second) return;
  }
  if (!queue_.add(job)) forget(job);  // The next change of the job tries again.
}

std::optional<plan::ProgressReport> ProgressPoller::last_report(std::string_view job_uid) const {
  const std::scoped_lock lock{mutex_};
  const auto found = progress_.find(job_uid);
  return found == progress_.end() ? std::nullopt : std::optional{found->second.report};
}

void ProgressPoller::run(control::WorkQueue& queue, const std::stop_token& stop) {
  while (const auto key = queue.take(stop)) {
    const Outcome outcome = poll(*key);
    control::WorkQueue& next = choose_queue(*key, outcome);
    switch (outcome) {
      case Outcome::answered:
      case Outcome::not_running:
        next.succeed_and_requeue(*key, options_.interval);
        break;
      case Outcome::silent:
      case Outcome::late:
        next.fail(*key, std::nullopt);
        break;
      case Outcome::over:
        forget(*key);
        break;
    }
    if (outcome == Outcome::over || &next != &queue) queue.succeed(*key);
  }
}

control::WorkQueue& ProgressPoller::queue_of(const ObjectKey& key) {
  const std::scoped_lock lock{mutex_};
  const auto tracked = tracked_.find(key);
  return tracked != tracked_.end() && tracked->second.is_late ? late_queue_ : queue_;
}

control::WorkQueue& ProgressPoller::choose_queue(const ObjectKey& key, Outcome outcome) {
  const bool is_late = outcome == Outcome::late;
  const std::scoped_lock lock{mutex_};
  if (const auto tracked = tracked_.find(key); tracked != tracked_.end()) tracked->second.is_late = is_late;
  return is_late ? late_queue_ : queue_;
}

ProgressPoller::Outcome ProgressPoller::poll(const ObjectKey& key) {
  const auto job = caches_.jobs.find(key);
  if (!job || is_over(*job)) return Outcome::over;
  const auto pod = running_rank_0(caches_, *job);
  const auto url = pod ? manifest::status_url(traits_, *job, *pod) : std::nullopt;
  if (!url) return Outcome::not_running;
  auto report = client_.progress(*url, *job, clock_);
  const auto asked = ask(*job, *pod, report);
  if (!report) {
    keep_silence(key, *job, asked, report.error());
    return report.error().kind == ErrorKind::timeout ? Outcome::late : Outcome::silent;
  }
  if (asked) note_answer(*report, *asked);
  keep_report(key, job->metadata.uid, *std::move(report));
  return Outcome::answered;
}

std::optional<api::CheckpointRequest> ProgressPoller::ask(const api::TrainingJob& job, const resource::Pod& rank_0,
                                                          const Result<plan::ProgressReport>& report) {
  const auto wanted = plan::request_to_send(job.status);
  const auto url = manifest::request_url(traits_, job, rank_0);
  if (!wanted || !url || rank_0.request_token.empty()) return std::nullopt;
  // Another pod has this address now, and must not get the token.
  if (!report && report.error().kind == ErrorKind::conflict) return std::nullopt;
  const bool is_known =
      report && std::ranges::find(report->requests, wanted->id, &api::CheckpointRequest::id) != report->requests.end();
  if (is_known) return std::nullopt;
  // Without an answer the request is sent again at the next poll.
  return client_.send_request(*url, rank_0.request_token, *wanted);
}

ProgressPoller::JobProgress* ProgressPoller::progress_of(const ObjectKey& key, const std::string& job_uid) {
  const auto tracked = tracked_.find(key);
  if (tracked == tracked_.end()) return nullptr;
  if (tracked->second.job_uid != job_uid) {
    progress_.erase(tracked->second.job_uid);  // of an earlier job with this name
    tracked->second.job_uid = job_uid;
  }
  return &progress_[job_uid];
}

void ProgressPoller::keep_report(const ObjectKey& key, const std::string& job_uid, plan::ProgressReport report) {
  {
    const std::scoped_lock lock{mutex_};
    JobProgress* const found = progress_of(key, job_uid);
    if (found == nullptr) return;
    JobProgress& progress = *found;
    progress.silent_since.reset();
    if (progress.report == report) return;
    progress.report = std::move(report);
  }
  on_report_(key);
}

void ProgressPoller::keep_silence(const ObjectKey& key, const api::TrainingJob& job,
                                  const std::optional<api::CheckpointRequest>& asked, const Error& error) {
  {
    const std::scoped_lock lock{mutex_};
    JobProgress* const found = progress_of(key, job.metadata.uid);
    if (found == nullptr) return;
    JobProgress& progress = *found;
    const std::int64_t attempt = job.status.attempt;
    if (progress.report.attempt != attempt) progress = JobProgress{.report = {.attempt = attempt}, .silent_since = {}};
    bool is_news = asked && note_answer(progress.report, *asked);
    const Instant now = clock_.instant();
    if (!progress.silent_since) progress.silent_since = now;
    if (now - *progress.silent_since >= options_.silence_max && progress.report.unavailable_because != error.message) {
      progress.report.unavailable_because = error.message;
      is_news = true;
    }
    if (!is_news) return;
  }
  on_report_(key);
}

void ProgressPoller::forget(const ObjectKey& key) {
  const std::scoped_lock lock{mutex_};
  const auto tracked = tracked_.find(key);
  if (tracked == tracked_.end()) return;
  progress_.erase(tracked->second.job_uid);
  tracked_.erase(tracked);
}

}  // namespace trainyard::manager
