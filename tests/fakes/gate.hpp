#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/check.hpp"

namespace trainyard::fakes {

/// Blocks the threads that call pass() until a test opens it for good. Any thread may call.
class Gate {
 public:
  void pass() {
    std::unique_lock lock{mutex_};
    has_arrival_ = true;
    changed_.notify_all();
    check(changed_.wait_for(lock, patience, [this] { return is_open_; }), "a gate that a test forgot to open");
  }
  /// Returns once a thread waits at the gate or has passed it.
  void wait_for_arrival() {
    std::unique_lock lock{mutex_};
    check(changed_.wait_for(lock, patience, [this] { return has_arrival_; }), "nobody comes to this gate");
  }
  void open() {
    const std::scoped_lock lock{mutex_};
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::minutes patience{1};

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool is_open_ = false;
  bool has_arrival_ = false;
};

}  // namespace trainyard::fakes
