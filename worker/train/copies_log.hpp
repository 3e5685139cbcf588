#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "common/outage.hpp"

namespace trainyard::train {

/// What the log says of the copies of checkpoints on the nodes. Pure but for the log.
class CopiesLog {
 public:
  /// `speaks`: whether this rank writes the log lines.
  explicit CopiesLog(bool speaks) : speaks_{speaks} {}

  struct Times {
    Instant now;
    double seconds = 0.0;        ///< That the copies took.
    double stall_seconds = 0.0;  ///< That training waited for them.
  };

  void saved(std::int64_t step, const Times& times);
  /// Told at once, once a minute while it lasts, and when it is over.
  void failed(std::int64_t step, const std::string& error, Instant now);

 private:
  bool speaks_;
  std::optional<Outage> outage_;  // Since the last that succeeded.
};

}  // namespace trainyard::train
