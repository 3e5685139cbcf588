#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace trainyard {

/// Blocks for `delay` or until `stop` is requested. False if `stop` was requested.
inline bool wait_unless_stopped(const std::stop_token& stop, std::chrono::milliseconds delay) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock{mutex};
  never.wait_for(lock, stop, delay, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace trainyard
