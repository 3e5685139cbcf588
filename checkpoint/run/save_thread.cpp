#include "checkpoint/run/save_thread.hpp"

#include <utility>

#include "common/check.hpp"

namespace trainyard::checkpoint {

SaveThread::SaveThread() : thread_{[this](const std::stop_token& stop) { run(stop); }} {}

void SaveThread::start(Work work) {
  const std::scoped_lock lock{mutex_};
  check(!is_busy() && !outcome_, "one save at a time, and each one's outcome is taken");
  work_ = std::move(work);
  is_busy_.store(true, std::memory_order_release);
  changed_.notify_all();
}

std::optional<SaveOutcome> SaveThread::take_outcome(std::chrono::milliseconds timeout) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, timeout, [this] { return !is_busy(); });
  return std::exchange(outcome_, std::nullopt);
}

void SaveThread::run(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  while (changed_.wait(lock, stop, [this] { return work_ != nullptr; })) {
    const Work work = std::exchange(work_, nullptr);
    lock.unlock();
    SaveOutcome outcome = work();
    lock.lock();
    outcome_ = std::move(outcome);
    is_busy_.store(false, std::memory_order_release);
    changed_.notify_all();
  }
}

}  // namespace trainyard::checkpoint
