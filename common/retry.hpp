#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace trainyard {

struct Backoff {
  std::chrono::milliseconds initial{100};
  std::chrono::milliseconds max{30'000};
  double factor = 2.0;        ///< At least 1.
  double jitter_share = 0.2;  ///< In [0, 1): the delay is scaled by a value in [1 - share, 1 + share].
};

/// The wait before try number `failures + 1`: initial * factor^(failures - 1), at most max, then jittered; 0 without
/// failures. Pure: the caller gives `random`, in [0, 1).
[[nodiscard]] std::chrono::milliseconds backoff_delay(const Backoff& backoff, std::int64_t failures, double random);

/// A random number in [0, 1), for the jitter of a backoff. Any thread may call.
[[nodiscard]] double random_share();

/// Counts the calls that fail in a row, and says when to log the outage: at its first failure and once a minute. Pure.
class Outage {
 public:
  /// Counts a failed call. True when the caller should log it.
  [[nodiscard]] bool add_failure(Instant now);

  /// The number of failed calls.
  [[nodiscard]] std::int64_t failures() const { return failures_; }
  /// The time since the first failed call.
  [[nodiscard]] std::chrono::nanoseconds duration(Instant now) const { return now - since_; }

 private:
  static constexpr std::chrono::minutes log_interval{1};

  std::int64_t failures_ = 0;
  Instant since_;
  Instant logged_;
};

}  // namespace trainyard
