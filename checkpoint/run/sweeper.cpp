#include "checkpoint/run/sweeper.hpp"

#include <utility>

namespace trainyard::checkpoint {

Sweeper::Sweeper(Task task) : task_{std::move(task)}, thread_{[this](const std::stop_token& stop) { run(stop); }} {}

void Sweeper::start() {
  const std::scoped_lock lock{mutex_};
  is_due_ = true;
  changed_.notify_all();
}

bool Sweeper::finish(std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, timeout, [this] { return !is_due_ && !is_busy_; });
}

void Sweeper::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (changed_.wait(lock, stop, [this] { return is_due_; }) && !stop.stop_requested()) {
    is_due_ = false;
    is_busy_ = true;
    lock.unlock();
    task_(stop);
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace trainyard::checkpoint
