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
  std::string holder;  ///< Differs from every other process's, also from an earlier one's of the same pod.
  ElectionTimes times;
};

/// Takes part in the election on a thread of its own. It asks for the lease only from wait_for_lead on, and no more
/// once wait_for_loss has told of a loss: who leads has somebody that works. Its end gives the lease back, so whoever
/// writes as the leader has to have ended before. Any thread may call.
class Elector {
 public:
  /// `api` and `clock` outlive it. Its requests should have deadlines of about a second: a slower API server loses us
  /// the lease.
  Elector(kube::Api& api, const Clock& clock, ElectorOptions options);
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  /// True only while no other process can have taken the lease, whatever this one's threads are held up by.
  [[nodiscard]] bool is_leader() const;
  /// Whether the lease has ever been read: the API server answers and lets us.
  [[nodiscard]] bool has_seen_lease() const { return has_seen_lease_; }

  /// Campaigns, and blocks until this process leads. False: `stop` was requested, leader or not.
  [[nodiscard]] bool wait_for_lead(const std::stop_token& stop);
  /// Blocks until this process no longer leads, or `stop` is requested. After a loss others may lead, and this process
  /// not before the next wait_for_lead.
  void wait_for_loss(const std::stop_token& stop);

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
  Election election_;  // the thread's alone
  std::atomic<Instant> leader_until_ = Instant{};
  std::atomic<bool> has_seen_lease_ = false;
  mutable std::mutex mutex_;  // guards is_candidate_, and leader_until_ against being set for one that is none
  bool is_candidate_ = false;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace trainyard::control
