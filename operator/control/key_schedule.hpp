#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/backoff.hpp"
#include "common/clock.hpp"
#include "operator/control/object_cache.hpp"

namespace trainyard::control {

/// Which key is due when: the work queue without its threads. A key is waiting at most once, at the soonest time asked
/// for, and with at most one taker: asked for while taken, it waits until it is done. One thread at a time.
class KeySchedule {
 public:
  struct Limits {
    std::size_t keys_max = 100'000;
    Backoff backoff{.initial = std::chrono::milliseconds{100}, .max = std::chrono::milliseconds{60'000}};
  };

  explicit KeySchedule(Limits limits) : limits_{limits} {}

  /// False: there are `keys_max` others already, and the key was not added.
  bool add(const ObjectKey& key, Instant due);
  /// The key that has been due for longest, if any is due at `now`. It is the caller's until `finish`.
  [[nodiscard]] std::optional<ObjectKey> take(Instant now);
  void finish(const ObjectKey& key);

  /// How long a key that failed once more should wait: exponential in its failures in a row. `random` in [0, 1).
  [[nodiscard]] std::chrono::milliseconds count_failure(const ObjectKey& key, double random);
  void forget_failures(const ObjectKey& key) { failures_.erase(key); }

  /// When the next key that nobody has becomes due.
  [[nodiscard]] std::optional<Instant> next_due() const;
  /// Keys that wait, those that are not yet due included.
  [[nodiscard]] std::size_t size() const { return due_.size(); }

 private:
  const Limits limits_;
  std::map<ObjectKey, Instant> due_;              // every waiting key
  std::set<std::pair<Instant, ObjectKey>> free_;  // the waiting keys that are not taken
  std::set<ObjectKey> taken_;
  std::map<ObjectKey, std::int64_t> failures_;
};

}  // namespace trainyard::control
