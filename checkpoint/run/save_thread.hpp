#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "checkpoint/run/run.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// The outcome of writing the copies on the nodes.
struct CopiesOutcome {
  std::string error;             ///< The failure, with the rank on whose node it was. Empty: every node has its copy.
  Instant::duration duration{};  ///< From the beginning of the staging.
};

/// The outcome of a save.
struct SaveOutcome {
  std::int64_t step = 0;
  /// Nothing: the state was not saved, for the reason in `left_out`, or because only copies were asked for.
  Result<std::optional<Saved>> saved;
  /// Why the state was not saved, such as "loss or parameters are not finite". Empty: no rank had a reason against it.
  std::string left_out;
  /// Nothing: no copies were asked for, `left_out` has a reason, or the group broke.
  std::optional<CopiesOutcome> copies{};
  bool is_copies_only = false;
  /// True when this rank's state was first copied on its device. Nothing: the state is on no device, or the device's
  /// memory is not known.
  std::optional<bool> is_copied_on_device{};
  Instant::duration duration{};  ///< From the beginning of the staging to the end of the save.
};

/// Runs one piece of work at a time on a thread of its own, and keeps the outcome until it is taken. One thread calls.
class SaveThread {
 public:
  /// Must not throw.
  using Work = std::function<SaveOutcome()>;

  SaveThread();
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;
  /// Waits for the work under way.
  ~SaveThread() = default;

  /// Needs that no work is under way, and that the last outcome was taken.
  void start(Work work);
  /// True while work is under way. Cheap, since it is asked in every step.
  [[nodiscard]] bool is_busy() const { return is_busy_.load(std::memory_order_acquire); }
  /// Waits up to `timeout` for the work under way. Returns the outcome of work that has ended, once.
  [[nodiscard]] std::optional<SaveOutcome> take_outcome(std::chrono::milliseconds timeout = {});

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;  // guards work_ and outcome_
  std::condition_variable_any changed_;
  Work work_;
  std::optional<SaveOutcome> outcome_;
  std::atomic<bool> is_busy_{false};
  std::jthread thread_;
};

}  // namespace trainyard::checkpoint
