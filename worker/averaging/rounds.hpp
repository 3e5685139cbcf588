#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::averaging {

/// The training thread's next task for the rounds.
enum class Demand {
  none,
  snapshot,  ///< Copy the parameters, then call give_snapshot().
  sum,       ///< Change the parameters by the sum of the ranks' snapshots, then call take_sum().
  end,       ///< Nothing: the ranks have left the averaging, or never began it.
  failure,   ///< Return failure(): the averaging has ended on this rank.
};

/// This rank's answer in the agreement before a round.
enum class Wish { average, leave };

/// The reason for which a rank's rounds have ended.
struct Failure {
  Error error;
  std::exception_ptr own;  ///< Set where the rank's own device or program has failed: to be rethrown.
};

/// The rounds in which the ranks average their parameters while they train, as the two threads of one rank see them.
/// The training thread alone touches parameters, and only where it asks for its demand(). The rounds' thread talks to
/// the other ranks: it agrees with them that a round happens, and sums the snapshots that the training threads give
/// (docs/strategies.md, "Parameters of each rank's own"). The averaging ends for all ranks at the first agreement in
/// which one wants to leave.
class Rounds {
 public:
  /// A round is due `interval` after the one before has begun. `on_demand` is called by the rounds' thread, without a
  /// lock, whenever there is a demand.
  Rounds(std::chrono::milliseconds interval, std::function<void()> on_demand);
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // The training thread calls these.

  /// Begins the averaging, which has ended on this rank. The first round is due an interval after `now`.
  void begin(Instant now);
  /// Lets the averaging end. Demands may come until the demand is `end`.
  void leave();
  [[nodiscard]] Demand demand() const;
  void give_snapshot();
  void take_sum();
  [[nodiscard]] std::optional<Failure> failure() const;
  /// The rounds that the ranks have agreed on so far.
  [[nodiscard]] std::int64_t count() const;

  // The rounds' thread calls these, in this order.

  /// Waits until the averaging has begun and a round is due, or this rank wants to leave. Nothing once `stop` is
  /// requested.
  [[nodiscard]] std::optional<Wish> wait_for_round(const std::stop_token& stop);
  /// The ranks have agreed: the averaging ends if `agreed` is to leave, and else a round begins at `now`.
  void agree(Wish agreed, Instant now);
  /// Waits until the training thread has given its snapshot. False once `stop` is requested.
  [[nodiscard]] bool wait_for_snapshot(const std::stop_token& stop);
  /// The snapshots are summed.
  void give_sum();
  /// No more rounds are made. In place of any of the above.
  void fail(Failure failure);

 private:
  void change(const std::function<void()>& change);

  const std::chrono::milliseconds interval_;
  const std::function<void()> on_demand_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  bool is_on_ = false;  // between begin() and the agreement to leave
  bool is_leaving_ = false;
  bool is_snapshot_wanted_ = false;
  bool is_sum_there_ = false;
  Instant due_;
  std::int64_t count_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace trainyard::averaging
