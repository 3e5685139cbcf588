#pragma once

#include <chrono>
#include <cstdint>

#include "common/clock.hpp"

namespace trainyard {

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
