#pragma once

#include <atomic>
#include <thread>

namespace trainyard::cli {

/// Counts SIGINT, SIGTERM and SIGHUP, the signals that ask this process to stop. SIGTERM and SIGHUP do not count where
/// the process was started with them ignored. Create it before other threads start, so that the signals are blocked in
/// all of them. Any thread may call.
///
/// The caller decides what a signal (Ctrl-C) does. `trainyard run`: the first suspends the job, so that its ranks save,
/// if they can, and end. Ranks that have not ended when their pod's grace period is over are killed. The second signal
/// kills them at once. The command exits with 128 + the first signal, or with the job's own exit code if the job ends
/// by itself in the meantime. Run again, it resumes a job that has `checkpoint`. Further jobs of the same file are not
/// begun. `checkpoints get`, `checkpoints export` and `snapshots get` end after the call under way and remove
/// unfinished files. Every other command ends at once. A worker that was started by hand:
/// worker/launcher/supervisor.hpp, on_stop(). The operator stops and gives its Lease back, and the jobs train on.
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
