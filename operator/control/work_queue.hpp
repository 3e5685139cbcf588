#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>

#include "operator/control/key_schedule.hpp"

namespace trainyard::control {

/// Keys to look at, each at most once in the queue and with at most one worker at a time. Bounded; any thread may call.
class WorkQueue {
 public:
  explicit WorkQueue(KeySchedule::Limits limits = {}) : schedule_{limits} {}

  /// False when the queue is full: the caller's next resync brings the key again.
  bool add(const ObjectKey& key) { return add_after(key, std::chrono::milliseconds{0}); }
  bool add_after(const ObjectKey& key, std::chrono::milliseconds delay);

  /// Blocks until a key is due; empty when `stop` is requested. Every key must come back by one of the three below.
  [[nodiscard]] std::optional<ObjectKey> take(const std::stop_token& stop);

  void succeed(const ObjectKey& key);
  /// Again after `delay`, which is no failure.
  void succeed_until(const ObjectKey& key, std::chrono::milliseconds delay);
  /// Again with backoff, and not before `retry_after`. How long that will be.
  std::chrono::milliseconds fail(const ObjectKey& key, std::optional<std::chrono::milliseconds> retry_after);

  /// Resets the backoff of a key that has made progress: its next failure counts as its first.
  void forget_failures(const ObjectKey& key);

  [[nodiscard]] std::size_t size() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  KeySchedule schedule_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace trainyard::control
