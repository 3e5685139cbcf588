#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.hpp"

namespace trainyard {

/// Runs tasks on threads of its own, and gives their results in the order in which the tasks were added. One thread
/// calls. The destructor drops the tasks that have not begun and waits for those that run.
template <typename T>
class OrderedTasks {
 public:
  /// `threads`: at least 1.
  explicit OrderedTasks(std::size_t threads) {
    check(threads > 0, "tasks need a thread");
    for (std::size_t thread = 0; thread < threads; ++thread)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  OrderedTasks(const OrderedTasks&) = delete;
  OrderedTasks& operator=(const OrderedTasks&) = delete;
  ~OrderedTasks() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  void add(std::function<T()> task) {
    auto added = std::make_shared<Task>();
    added->run = std::move(task);
    added_.push_back(added);
    const std::scoped_lock lock{mutex_};
    waiting_.push_back(std::move(added));
    changed_.notify_all();
  }

  /// The result of the oldest task that was not taken yet, for which it waits. Throws what that task threw. There must
  /// be such a task.
  [[nodiscard]] T take() {
    check(!added_.empty(), "there is a task to take");
    const std::shared_ptr<Task> oldest = std::move(added_.front());
    added_.pop_front();
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return oldest->result || oldest->failure; });
    }
    if (oldest->failure) std::rethrow_exception(oldest->failure);
    return std::move(*oldest->result);
  }

  /// How many tasks were added and not taken.
  [[nodiscard]] std::size_t size() const { return added_.size(); }

 private:
  struct Task {
    std::function<T()> run;
    std::optional<T> result;
    std::exception_ptr failure;
  };

  void work(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); }) && !stop.stop_requested()) {
      const std::shared_ptr<Task> task = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      std::optional<T> result;
      std::exception_ptr failure;
      try {
        result.emplace(task->run());
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      task->result = std::move(result);
      task->failure = std::move(failure);
      changed_.notify_all();
    }
  }

  std::deque<std::shared_ptr<Task>> added_;  // the oldest first; only the caller's thread uses it
  std::mutex mutex_;                         // guards waiting_ and the tasks' results
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Task>> waiting_;
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard
