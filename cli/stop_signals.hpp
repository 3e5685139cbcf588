#pragma once

#include <atomic>
#include <thread>

namespace trainyard::cli {

/// Counts the signals that ask this process to stop: SIGINT, and SIGTERM and SIGHUP unless the process was started with
/// them ignored. What the first and the second signal do is for the caller to say: run_job() (job_run.hpp). Create it
/// before other threads start, so that the signals are blocked in all of them. Any thread may call.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] int count() const { return count_; }
  /// The first signal; 0: none yet.
  [[nodiscard]] int first() const { return first_; }

 private:
  std::atomic<int> count_ = 0;
  std::atomic<int> first_ = 0;
  std::jthread thread_;  // Last: joins before the rest dies.
};

}  // namespace trainyard::cli
