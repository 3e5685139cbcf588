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

/// Says which key is due when: the work queue without its threads. A key waits at most once, for the soonest time asked
/// for. At most one caller has it: a key that is added while taken waits until it is finished. One thread at a time.
class KeySchedule {
 public:
  struct Limits {
    std::size_t keys_max = 100'000;
    Backoff backoff{.initial = std::chrono::milliseconds{100}, .max = std::chrono::milliseconds{60'000}};
  };

  explicit KeySchedule(Limits limits) : limits_{limits} {}

  /// False, and nothing is added, if `keys_max` other keys wait already.
  bool add(const ObjectKey& key, Instant due);
  /// The key that has been due for longest; empty if none is due at `now`. The caller has it until finish().
  [[nodiscard]] std::optional<ObjectKey> take(Instant now);
  void finish(const ObjectKey& key);

  /// Counts a failure of the key, and returns how long it should wait: exponential in its failures in a row. A failure
  /// before the last wait is over is not counted, and its wait is the rest of that one. `random` in [0, 1).
  [[nodiscard]] std::chrono::milliseconds count_failure(const ObjectKey& key, Instant now, double random);
  void forget_failures(const ObjectKey& key) { failures_.erase(key); }

  /// When the next key that is not taken is due; empty if there is none.
  [[nodiscard]] std::optional<Instant> next_due() const;
  /// Number of keys that wait, due or not.
  [[nodiscard]] std::size_t size() const { return due_.size(); }

 private:
  struct Failures {
    std::int64_t count = 0;
    Instant retry{};  ///< The end of the wait after the last failure.
  };

  const Limits limits_;
  std::map<ObjectKey, Instant> due_;              // every waiting key
  std::set<std::pair<Instant, ObjectKey>> free_;  // the waiting keys that are not taken
  std::set<ObjectKey> taken_;
  std::map<ObjectKey, Failures> failures_;
};

}  // namespace trainyard::control
