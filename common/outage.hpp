#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace trainyard {

/// Calls that fail for a while, so that the log tells of it at once, once a minute while it lasts, and when it is over.
/// Pure.
class Outage {
 public:
  /// A call has failed. Whether the log is to tell of it.
  [[nodiscard]] bool add_failure(Instant now);

  /// Calls that have failed since the last that succeeded.
  [[nodiscard]] std::int64_t failures() const { return failures_; }
  /// Since the first of these.
  [[nodiscard]] std::chrono::nanoseconds duration(Instant now) const { return now - since_; }

 private:
  static constexpr std::chrono::minutes told_interval{1};

  std::int64_t failures_ = 0;
  Instant since_;
  Instant told_;
};

}  // namespace trainyard
