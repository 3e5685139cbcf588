#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace trainyard::checkpoint {

/// Does a task that may take long, and whose outcome nobody needs, on a thread of its own. Any thread may call.
class Sweeper {
 public:
  /// Must not throw; returns soon once the token's stop is requested.
  using Task = std::function<void(const std::stop_token&)>;

  explicit Sweeper(Task task);
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;
  /// Gives up, and returns when the task under way has ended.
  ~Sweeper() = default;

  /// Has the task done once more, after the one under way if there is one.
  void start();
  /// True once nothing is under way; waits for that no longer than `timeout`.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);
  /// Requests the stop of the task under way, and begins none any more. Returns at once.
  void give_up() { thread_.request_stop(); }

 private:
  void run(const std::stop_token& stop);

  const Task task_;
  std::mutex mutex_;  // guards is_due_ and is_busy_
  std::condition_variable_any changed_;
  bool is_due_ = false;
  bool is_busy_ = false;
  std::jthread thread_;  // The last: it ends before what it uses.
};

}  // namespace trainyard::checkpoint
