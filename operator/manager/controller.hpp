#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.hpp"
#include "operator/control/cache_sink.hpp"
#include "operator/control/informer.hpp"
#include "operator/control/work_queue.hpp"
#include "operator/kube/api.hpp"
#include "operator/manager/progress_poller.hpp"
#include "operator/manager/rank_client.hpp"
#include "operator/reconcile/reconciler.hpp"

namespace trainyard::manager {

/// Counters of a process since its start, over all times that it led. Any thread.
struct Counters {
  std::atomic<std::int64_t> reconciles = 0;
  std::atomic<std::int64_t> reconcile_errors = 0;
};

struct ControllerOptions {
  std::vector<std::string> namespaces;                 ///< Empty: all.
  bool is_watching_nodes = true;                       ///< Without it only the evidence of lost nodes is missing.
  int workers = 4;                                     ///< Jobs that are reconciled at a time.
  std::chrono::milliseconds resync_interval{300'000};  ///< How often each job is reconciled although nothing changes.
  control::KeySchedule::Limits queue;
  reconcile::ReconcilerOptions reconciler;
  PollerOptions poller;
  CallRank call_rank = manager::call_rank;
};

/// All threads that work on jobs. Informers fill the caches, changes put jobs into the queue, workers reconcile them,
/// and the poller asks for their progress. Works from construction to destruction. Plans nothing before every cache has
/// been listed. The destructor waits for requests in flight. Any thread may call.
class Controller {
 public:
  /// `api`, `clock` and `counters` outlive the controller.
  Controller(kube::Api& api, const Clock& clock, ControllerOptions options, Counters& counters);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// True once every cache has been listed.
  [[nodiscard]] bool is_synced() const;
  [[nodiscard]] const reconcile::Caches& caches() const { return caches_; }
  [[nodiscard]] std::size_t queue_size() const { return queue_.size(); }
  [[nodiscard]] std::int64_t watch_restarts() const;
  [[nodiscard]] std::map<api::Phase, std::int64_t> jobs_by_phase() const;

 private:
  template <typename T>
  void inform(const kube::ResourceType& type, control::ObjectCache<T>& cache, control::InformerOptions options,
              typename control::CacheSink<T>::Parse parse, typename control::CacheSink<T>::OnChange on_change,
              typename control::CacheSink<T>::OnUnreadable on_unreadable = {});
  void add_informers();
  void on_job(const api::TrainingJob& job);
  void on_unreadable_job(const api::Metadata& job, const Error& error);
  void on_node(const resource::Node& node);
  void on_mount_failure(const resource::MountFailure& failure);
  void enqueue_owner(const api::Metadata& owned);

  void count_first_list();
  bool wait_for_first_lists(const std::stop_token& stop);
  void work(const std::stop_token& stop);
  void reconcile(const control::ObjectKey& key);
  /// If the job cannot be read, records an event that says why.
  Result<void> report_if_unreadable(const control::ObjectKey& key);
  void resync(const std::stop_token& stop);

  struct Unreadable {
    api::Metadata metadata;
    std::string why;
  };

  kube::Api& api_;
  const Clock& clock_;
  const ControllerOptions options_;
  Counters& counters_;
  reconcile::Caches caches_;
  control::WorkQueue queue_;
  ProgressPoller poller_;
  reconcile::Reconciler reconciler_;
  std::vector<std::unique_ptr<control::ObjectSink>> sinks_;
  std::vector<std::unique_ptr<control::Informer>> informers_;
  mutable std::mutex mutex_;  // guards the three below
  std::condition_variable_any listed_;
  std::size_t unlisted_ = 0;
  std::map<control::ObjectKey, Unreadable> unreadable_;  // jobs without their event yet
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::manager
