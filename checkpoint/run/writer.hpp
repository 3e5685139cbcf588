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

/// What became of the copies on the nodes.
struct CopiesOutcome {
  std::string error;             ///< What failed, and on which rank's node. Empty: every node has its copy.
  Instant::duration duration{};  ///< From the beginning of the staging.
};

/// How a save ended.
struct SaveOutcome {
  std::int64_t step = 0;
  /// Nothing: some rank's state was not sound, and was left out; or only copies were to be made.
  Result<std::optional<Saved>> saved;
  std::string left_out;  ///< Why it was left out: "loss or parameters are not finite". Empty: it was not.
  std::optional<CopiesOutcome> copies{};  ///< Nothing: none were to be made, or it was left out, or the group broke.
  bool is_copies_only = false;
  Instant::duration duration{};  ///< From the beginning of the staging to the end of all that belongs to it.
};

/// Does one piece of work at a time on a thread of its own and keeps its outcome until that is taken. One thread calls.
class Writer {
 public:
  /// Must not throw.
  using Work = std::function<SaveOutcome()>;

  Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  /// Returns when the work under way has ended.
  ~Writer() = default;

  /// Needs that nothing is under way and that the outcome before was taken.
  void start(Work work);
  /// Whether work is under way. As cheap as it can be: asked at every step.
  [[nodiscard]] bool is_busy() const { return is_busy_.load(std::memory_order_acquire); }
  /// The outcome of the work that has ended, once. While work is under way it is waited for, no longer than `timeout`.
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
