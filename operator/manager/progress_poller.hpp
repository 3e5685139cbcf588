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
#include "operator/manager/rank_client.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/reconcile/observe.hpp"

namespace trainyard::manager {

struct PollerOptions {
  std::chrono::milliseconds interval{2'000};
  std::chrono::milliseconds deadline{1'000};      ///< For one call to a rank 0.
  std::chrono::milliseconds silence_max{10'000};  ///< A rank 0 that is silent for longer is reported as unreachable.
  std::chrono::milliseconds silent_interval_max{
      30'000};  ///< Longest pause between polls of a rank 0 that stays silent.
  /// Concurrent polls. As many others are reserved for rank 0s whose last poll ran into the deadline, so that these
  /// hold up only each other.
  int workers = 4;
};

/// Polls the progress of each running job from its rank 0, sends rank 0 the request for a checkpoint that the status
/// records, and keeps the last answer. Any thread may call.
class ProgressPoller final : public reconcile::ProgressSource {
 public:
  using OnReport = std::function<void(const control::ObjectKey&)>;

  /// `caches` and `clock` outlive the poller. `on_report` is called, on a thread of the poller, for a job whose report
  /// has changed.
  ProgressPoller(const reconcile::Caches& caches, const Clock& clock, manifest::ClusterTraits traits, CallRank call,
                 OnReport on_report, PollerOptions options = {});
  /// Waits for the polls in flight.
  ~ProgressPoller() override;
  ProgressPoller(const ProgressPoller&) = delete;
  ProgressPoller& operator=(const ProgressPoller&) = delete;

  /// Polls the job from now on, while it is in the cache and has not ended. Cheap to call again.
  void track(const control::ObjectKey& job);
  /// Polls a tracked job now.
  void poll_now(const control::ObjectKey& job) { queue_of(job).add(job); }

  [[nodiscard]] std::optional<plan::ProgressReport> last_report(std::string_view job_uid) const override;

 private:
  struct JobProgress {
    plan::ProgressReport report;
    std::optional<Instant> silent_since;
  };
  struct Tracked {
    std::string job_uid;  // Empty before the first poll.
    bool is_late = false;
  };
  /// late: the poll ran into its deadline; silent: the poll failed before.
  enum class Outcome { answered, silent, late, not_running, over };

  void run(control::WorkQueue& queue, const std::stop_token& stop);
  control::WorkQueue& queue_of(const control::ObjectKey& key);
  /// The queue for the job's next polls after this outcome.
  control::WorkQueue& choose_queue(const control::ObjectKey& key, Outcome outcome);
  Outcome poll(const control::ObjectKey& key);
  /// Sends rank 0 the request that the status records, unless `report` has it already. Returns rank 0's answer; empty
  /// if there is none.
  std::optional<api::CheckpointRequest> ask(const api::TrainingJob& job, const resource::Pod& rank_0,
                                            const Result<plan::ProgressReport>& report);
  /// The job's progress, valid while mutex_ is held; null if the job is no longer tracked.
  JobProgress* progress_of(const control::ObjectKey& key, const std::string& job_uid);
  void keep_report(const control::ObjectKey& key, const std::string& job_uid, plan::ProgressReport report);
  void keep_silence(const control::ObjectKey& key, const api::TrainingJob& job,
                    const std::optional<api::CheckpointRequest>& asked, const Error& error);
  void forget(const control::ObjectKey& key);

  const reconcile::Caches& caches_;
  const Clock& clock_;
  const manifest::ClusterTraits traits_;
  const RankClient client_;
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
