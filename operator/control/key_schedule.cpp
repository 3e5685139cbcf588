#include "operator/control/key_schedule.hpp"

namespace trainyard::control {

bool KeySchedule::add(const ObjectKey& key, Instant due) {
  const bool is_taken = taken_.contains(key);
  if (const auto waiting = due_.find(key); waiting != due_.end()) {
    if (waiting->second <= due) return true;
    if (!is_taken) free_.erase({waiting->second, key});
    waiting->second = due;
  } else {
    if (due_.size() >= limits_.keys_max) return false;
    due_.emplace(key, due);
  }
  if (!is_taken) free_.emplace(due, key);
  return true;
}

std::optional<ObjectKey> KeySchedule::take(Instant now) {
  if (free_.empty() || free_.begin()->first > now) return std::nullopt;
  ObjectKey key = free_.begin()->second;
  free_.erase(free_.begin());
  due_.erase(key);
  taken_.insert(key);
  return key;
}

void KeySchedule::finish(const ObjectKey& key) {
  if (taken_.erase(key) == 0) return;
  if (const auto waiting = due_.find(key); waiting != due_.end()) free_.emplace(waiting->second, key);
}

std::chrono::milliseconds KeySchedule::count_failure(const ObjectKey& key, Instant now, double random) {
  Failures& failures = failures_[key];
  // A change wakes a key before its wait is over. Many changes during an outage must not lengthen the wait: anybody may
  // make pods that name another's job.
  if (failures.count > 0 && now < failures.retry) {
    return std::chrono::ceil<std::chrono::milliseconds>(failures.retry - now);
  }
  const auto delay = backoff_delay(limits_.backoff, ++failures.count, random);
  failures.retry = now + delay;
  return delay;
}

std::optional<Instant> KeySchedule::next_due() const {
  if (free_.empty()) return std::nullopt;
  return free_.begin()->first;
}

}  // namespace trainyard::control
