#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "common/clock.hpp"
#include "operator/control/election.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::control {

struct ElectorOptions {
  std::string name_space;
  std::string name = "trainyard-operator";
  std::string holder;  ///< This process's name in the lease. Unique, also among the processes of one pod.
  ElectionTimes times;
};

/// Takes part in the election on a thread of its own. It asks for the lease only between a call of wait_until_leader()
/// and the next loss that wait_until_not_leader() reports, so that no process leads without working. The destructor
/// gives the lease back; everything that writes as the leader must have ended before. Any thread may call.
class Elector {
 public:
  /// `api` and `clock` outlive the elector. Requests of `api` should have deadlines of about a second: a slower API
  /// server makes us lose the lease.
  Elector(kube::Api& api, const Clock& clock, ElectorOptions options);
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  /// True only while no other process can have taken the lease, even if this process's threads were held up.
  [[nodiscard]] bool is_leader() const;
  /// True once the lease has been read: the API server answers, and we may read it.
  [[nodiscard]] bool has_seen_lease() const { return has_seen_lease_; }

  /// Asks for the lease, and blocks until this process leads. False if `stop` was requested, leader or not.
  [[nodiscard]] bool wait_until_leader(const std::stop_token& stop);
  /// Blocks until this process no longer leads, or `stop` is requested. After a loss this process does not ask for the
  /// lease before the next wait_until_leader().
  void wait_until_not_leader(const std::stop_token& stop);

 private:
  void run(const std::stop_token& stop);
  void take_action(Election::Action action);
  void read();
  void write(Election::Action action);
  bool is_candidate() const;
  void publish();
  void release();

  kube::Api& api_;
  const Clock& clock_;
  const ElectorOptions options_;
  Election election_;  // used by thread_ only
  std::atomic<Instant> leader_until_ = Instant{};
  std::atomic<bool> has_seen_lease_ = false;
  mutable std::mutex mutex_;  // guards is_candidate_, and that leader_until_ is set only for a candidate
  bool is_candidate_ = false;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace trainyard::control
