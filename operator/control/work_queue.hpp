#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>

#include "operator/control/key_schedule.hpp"

namespace trainyard::control {

/// Keys to reconcile. Each key is in the queue at most once, and at most one worker has it. Bounded; any thread may
/// call.
class WorkQueue {
 public:
  explicit WorkQueue(KeySchedule::Limits limits = {}) : schedule_{limits} {}

  /// False when the queue is full; the next resync adds the key again.
  bool add(const ObjectKey& key) { return add_after(key, std::chrono::milliseconds{0}); }
  bool add_after(const ObjectKey& key, std::chrono::milliseconds delay);

  /// Blocks until a key is due; empty when `stop` is requested. The caller must hand the key back by one of the next
  /// three functions.
  [[nodiscard]] std::optional<ObjectKey> take(const std::stop_token& stop);

  void succeed(const ObjectKey& key);
  /// Hands back a key that is due again after `delay`; not a failure.
  void succeed_and_requeue(const ObjectKey& key, std::chrono::milliseconds delay);
  /// Hands back a key that failed. The key is due again after its backoff, but not before `retry_after`. Returns the
  /// wait.
  std::chrono::milliseconds fail(const ObjectKey& key, std::optional<std::chrono::milliseconds> retry_after);

  /// Resets the backoff of a key that has made progress.
  void forget_failures(const ObjectKey& key);

  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  KeySchedule schedule_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace trainyard::control
