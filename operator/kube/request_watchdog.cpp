#include "operator/kube/request_watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace trainyard::kube {

Result<std::unique_ptr<RequestWatchdog>> RequestWatchdog::start(std::chrono::milliseconds limit,
                                                                std::function<void()> end_request,
                                                                std::stop_token stop) {
  try {
    return std::unique_ptr<RequestWatchdog>{new RequestWatchdog{limit, std::move(end_request), std::move(stop)}};
  } catch (const std::system_error& error) {
    return fail(ErrorKind::unavailable, fmt::format("starting a thread for a request's deadline: {}", error.what()));
  }
}

RequestWatchdog::RequestWatchdog(std::chrono::milliseconds limit, std::function<void()> end_request,
                                 std::stop_token stop)
    : limit_{limit},
      end_request_{std::move(end_request)},
      stop_{std::move(stop)},
      due_{std::chrono::steady_clock::now() + limit},
      thread_{[this](const std::stop_token& is_over) { run(is_over); }} {}

void RequestWatchdog::pause() {
  const std::scoped_lock lock{mutex_};
  due_ = Instant::max();
}

void RequestWatchdog::restart() {
  const std::scoped_lock lock{mutex_};
  due_ = std::chrono::steady_clock::now() + limit_;
}

void RequestWatchdog::run(const std::stop_token& is_over) {
  constexpr std::chrono::milliseconds pause{10};
  const std::stop_callback wake{stop_, [this] {
                                  const std::scoped_lock lock{mutex_};
                                  changed_.notify_all();
                                }};
  std::unique_lock lock{mutex_};
  while (!is_over.stop_requested()) {
    const Instant now = std::chrono::steady_clock::now();
    if (!stop_.stop_requested() && now < due_) {
      // pause() and restart() wake nobody, since they are called for each event of a watch.
      const Instant next_look = std::min(due_, now + limit_);
      changed_.wait_until(lock, is_over, next_look, [this] { return stop_.stop_requested(); });
      continue;
    }
    lock.unlock();
    end_request_();
    lock.lock();
    changed_.wait_for(lock, is_over, pause, [] { return false; });
  }
}

}  // namespace trainyard::kube
