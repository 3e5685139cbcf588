#pragma once

#include <atomic>
#include <thread>

namespace trainyard::cli {

/// Ctrl-C and its relatives as a number that others can look at: SIGINT, and of SIGTERM and SIGHUP those that this
/// process was not started to ignore. Made before other threads are started, so that all of them have the signals
/// blocked and none is interrupted. Any thread may ask.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] int count() const { return count_; }
  /// The first that came; 0: none yet.
  [[nodiscard]] int first() const { return first_; }

 private:
  std::atomic<int> count_ = 0;
  std::atomic<int> first_ = 0;
  std::jthread thread_;  // Last: joins before the rest dies.
};

}  // namespace trainyard::cli
