#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <thread>

#include "common/interruptible_wait.hpp"

namespace trainyard::kube {

/// Ends an HTTP request that is still in flight when `deadline` has passed. The time limits of cpp-httplib apply to
/// each read, so that a server which sends a byte now and then never meets them.
class RequestDeadline {
 public:
  /// `stop_client` calls the client's stop() and is called on a thread of its own, from `deadline` after now until the
  /// destructor. It is called repeatedly, because a connection that is being made cannot be stopped.
  RequestDeadline(std::chrono::milliseconds deadline, std::function<void()> stop_client)
      : thread_{[deadline, stop_client = std::move(stop_client)](const std::stop_token& is_over) {
          constexpr std::chrono::milliseconds pause{10};
          if (!wait_unless_stopped(is_over, deadline)) return;
          do {
            stop_client();
          } while (wait_unless_stopped(is_over, pause));
        }} {}

 private:
  std::jthread thread_;
};

}  // namespace trainyard::kube
