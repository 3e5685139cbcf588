#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::kube {

/// Ends an HTTP request that is in flight once `limit` has passed, or `stop` is requested. The time limits of
/// cpp-httplib apply to each read, so that a server which sends a byte now and then never meets them.
class RequestWatchdog {
 public:
  /// `end_request` is called on a thread of its own, again and again until the watchdog is destroyed, because a new
  /// connection may be made at any moment. ErrorKind::unavailable when the system has no thread left.
  [[nodiscard]] static Result<std::unique_ptr<RequestWatchdog>> start(std::chrono::milliseconds limit,
                                                                      std::function<void()> end_request,
                                                                      std::stop_token stop = {});

  /// The server is not waited for until restart() is called. Any thread may call, and restart() too.
  void pause();
  /// From now on `limit` counts from this moment. After a pause the end may come up to `limit` later.
  void restart();

 private:
  RequestWatchdog(std::chrono::milliseconds limit, std::function<void()> end_request, std::stop_token stop);
  void run(const std::stop_token& is_over);

  const std::chrono::milliseconds limit_;
  const std::function<void()> end_request_;
  const std::stop_token stop_;
  std::mutex mutex_;  // guards due_
  std::condition_variable_any changed_;
  Instant due_;
  std::jthread thread_;
};

}  // namespace trainyard::kube
