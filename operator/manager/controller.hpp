#pragma once

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
#include "operator/manager/counters.hpp"
#include "operator/manager/progress_poller.hpp"
#include "operator/manager/status_fetch.hpp"
#include "operator/reconcile/reconciler.hpp"

namespace trainyard::manager {

struct ControllerOptions {
  std::vector<std::string> namespaces;  ///< Empty: all.
  bool is_watching_nodes = true;        ///< Where the operator may not, node evidence is missing and nothing else.
  int workers = 4;                      ///< Jobs that are looked at a time.
  std::chrono::milliseconds resync_interval{
      300'000};  ///< Each job is looked at this often even when nothing is heard of it.
  control::KeySchedule::Limits queue;
  reconcile::ReconcilerOptions reconciler;
  PollerOptions poller;
  StatusFetch fetch_status = manager::fetch_status;
};

/// Everything that works on jobs: informers fill the caches, changes put jobs into the queue, workers reconcile them,
/// the poller asks how far they are. It works from its construction, lists every cache afresh before it plans for the
/// first time, and ends with its destructor, which waits for the requests that are under way. Any thread may call.
class Controller {
 public:
  /// `api`, `clock` and `counters` outlive it.
  Controller(kube::Api& api, const Clock& clock, ControllerOptions options, Counters& counters);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Whether every cache has been listed.
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
  /// Records an event that says why the job cannot be read; does nothing for other jobs.
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
  std::map<control::ObjectKey, Unreadable> unreadable_;  // jobs whose owners are still to be told
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::manager
