#include "operator/control/work_queue.hpp"

#include <algorithm>

namespace trainyard::control {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool WorkQueue::add_after(const ObjectKey& key, milliseconds delay) {
  {
    const std::scoped_lock lock{mutex_};
    if (!schedule_.add(key, steady_clock::now() + delay)) return false;
  }
  changed_.notify_one();
  return true;
}

std::optional<ObjectKey> WorkQueue::take(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    if (auto key = schedule_.take(steady_clock::now())) {
      // Wakes another worker, which may be waiting for a key that is due later than the next one.
      if (schedule_.next_due()) changed_.notify_one();
      return key;
    }
    const auto next = schedule_.next_due();
    const auto is_sooner = [&] { return schedule_.next_due() != next; };
    if (next) {
      changed_.wait_until(lock, stop, *next, is_sooner);
    } else {
      changed_.wait(lock, stop, is_sooner);
    }
  }
  return std::nullopt;
}

void WorkQueue::succeed(const ObjectKey& key) {
  {
    const std::scoped_lock lock{mutex_};
    schedule_.forget_failures(key);
    schedule_.finish(key);
  }
  changed_.notify_one();
}

void WorkQueue::succeed_and_requeue(const ObjectKey& key, milliseconds delay) {
  add_after(key, delay);
  succeed(key);
}

milliseconds WorkQueue::fail(const ObjectKey& key, std::optional<milliseconds> retry_after) {
  milliseconds delay{0};
  {
    const std::scoped_lock lock{mutex_};
    const double random = std::uniform_real_distribution<>{0.0, 1.0}(random_);
    const auto now = steady_clock::now();
    delay = std::max(schedule_.count_failure(key, now, random), retry_after.value_or(milliseconds{0}));
    schedule_.add(key, now + delay);
    schedule_.finish(key);
  }
  changed_.notify_one();
  return delay;
}

void WorkQueue::forget_failures(const ObjectKey& key) {
  const std::scoped_lock lock{mutex_};
  schedule_.forget_failures(key);
}

std::size_t WorkQueue::size() const {
  const std::scoped_lock lock{mutex_};
  return schedule_.size();
}

}  // namespace trainyard::control
