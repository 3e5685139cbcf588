#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace trainyard::checkpoint {

/// Runs a task that may take long, and whose outcome nobody needs, on a thread of its own. Any thread may call.
class Sweeper {
 public:
  /// Must not throw, and must return soon after a stop is requested.
  using Task = std::function<void(const std::stop_token&)>;

  explicit Sweeper(Task task);
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;
  /// Requests a stop, and waits for the task under way.
  ~Sweeper() = default;

  /// Runs the task once more, after the one under way if there is one.
  void start();
  /// Waits up to `timeout` until no task is due or under way. True when none is.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);
  /// Requests a stop of the task under way, and starts none after it. Returns at once.
  void give_up() { thread_.request_stop(); }

 private:
  void run(const std::stop_token& stop);

  const Task task_;
  std::mutex mutex_;  // guards is_due_ and is_busy_
  std::condition_variable_any changed_;
  bool is_due_ = false;
  bool is_busy_ = false;
  std::jthread thread_;  // The last member: the thread ends before what it uses.
};

}  // namespace trainyard::checkpoint
