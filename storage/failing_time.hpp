#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace trainyard::storage {

/// Remembers since when the calls of one batch fail: their patience begins there.
class FailingTime {
 public:
  void on_success(Instant now) {
    since_.reset();
    last_success_ = now;
  }
  /// Notes failure number `failures` (from 1) of one call, whose try began at `started`. Returns the instant from which
  /// the patience with that call is counted: `now` for its first failure, since over a slow link one try may take
  /// longer than the patience; never an instant before another call's success, which shows that the server was there.
  [[nodiscard]] Instant on_failure(std::int64_t failures, Instant started, Instant now) {
    if (!since_) since_ = std::max(started, last_success_);
    return failures == 1 ? now : *since_;
  }
  [[nodiscard]] bool is_failing() const { return since_.has_value(); }

 private:
  std::optional<Instant> since_;  ///< Empty when the last call that ended has succeeded.
  Instant last_success_{};
};

}  // namespace trainyard::storage
