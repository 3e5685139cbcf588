#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.hpp"
#include "operator/control/work_queue.hpp"
#include "operator/manager/status_fetch.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/progress_source.hpp"

namespace trainyard::manager {

/// POSTs to a rank. Any thread may call.
using RequestPost =
    std::function<Result<RankReply>(const std::string& url, const RankPost& post, std::chrono::milliseconds deadline)>;

/// Over plain HTTP.
[[nodiscard]] Result<RankReply> post_request(const std::string& url, const RankPost& post,
                                             std::chrono::milliseconds deadline);

struct PollerOptions {
  std::chrono::milliseconds interval{2'000};
  std::chrono::milliseconds deadline{1'000};      ///< Of one poll.
  std::chrono::milliseconds silence_max{10'000};  ///< After this much of it a rank 0 counts as unreachable.
  std::chrono::milliseconds silent_interval_max{
      30'000};  ///< One that stays silent is asked ever more seldom, down to this.
  /// Polls at a time. As many again are for rank 0s that let the deadline pass at their last poll: however many those
  /// are, they hold up each other and nobody else.
  int workers = 4;
  RequestPost post_request = manager::post_request;
};

/// Asks rank 0 of each running job how far it is, and for the checkpoint that its status says is to be asked for; keeps
/// what it answered last. Any thread may call.
class ProgressPoller final : public reconcile::ProgressSource {
 public:
  using OnReport = std::function<void(const control::ObjectKey&)>;

  /// `caches` and `clock` outlive it. `on_report` is called, on a thread of the poller, for a job whose report is
  /// another than before.
  ProgressPoller(const reconcile::Caches& caches, const Clock& clock, manifest::ClusterTraits traits, StatusFetch fetch,
                 OnReport on_report, PollerOptions options = {});
  /// Waits for the polls that are under way.
  ~ProgressPoller() override;
  ProgressPoller(const ProgressPoller&) = delete;
  ProgressPoller& operator=(const ProgressPoller&) = delete;

  /// From now on the job is polled while it is in the cache and not over. Cheap to call again.
  void track(const control::ObjectKey& job);
  /// The next poll of a job that is tracked is now.
  void poll_now(const control::ObjectKey& job) { queue_of(job).add(job); }

  [[nodiscard]] std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const override;

 private:
  struct JobProgress {
    plan::ProgressReport report;
    std::optional<Instant> silent_since;
  };
  struct Tracked {
    std::string job_uid;  // Empty until a poll has met the job.
    bool is_late = false;
  };
  /// late: it let the deadline pass; silent: it was soon clear that no answer comes.
  enum class Outcome { answered, silent, late, not_running, over };

  void run(control::WorkQueue& queue, const std::stop_token& stop);
  control::WorkQueue& queue_of(const control::ObjectKey& key);
  /// The queue for the polls after one that ended so.
  control::WorkQueue& choose_queue(const control::ObjectKey& key, Outcome outcome);
  Outcome poll(const control::ObjectKey& key);
  /// What rank 0 makes of the checkpoint that is to be asked for, where it has not said so in its report.
  std::optional<api::CheckpointRequest> ask(const api::TrainingJob& job, const resource::Pod& rank_0,
                                            const Result<plan::ProgressReport>& report);
  /// The job's progress, for as long as mutex_ is held; none when it is tracked no more.
  JobProgress* progress_of(const control::ObjectKey& key, const std::string& job_uid);
  void keep_report(const control::ObjectKey& key, const std::string& job_uid, plan::ProgressReport report);
  void keep_silence(const control::ObjectKey& key, const api::TrainingJob& job,
                    const std::optional<api::CheckpointRequest>& asked, const Error& error);
  void forget(const control::ObjectKey& key);

  const reconcile::Caches& caches_;
  const Clock& clock_;
  const manifest::ClusterTraits traits_;
  const StatusFetch fetch_;
  const OnReport on_report_;
  const PollerOptions options_;
  control::WorkQueue queue_;
  control::WorkQueue late_queue_;
  mutable std::mutex mutex_;  // guards the two below
  std::map<control::ObjectKey, Tracked> tracked_;
  std::map<std::string, JobProgress, std::less<>> progress_;  // by the job's UID
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::manager
