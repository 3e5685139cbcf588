#pragma once

#include <chrono>

namespace trainyard {

/// Calendar time, as in the objects of the API. Compare it with other calendar times only.
using Time = std::chrono::sys_time<std::chrono::milliseconds>;
/// Local monotonic time: for deadlines, leases and intervals.
using Instant = std::chrono::steady_clock::time_point;

/// The only source of the time. Decisions take a Time or an Instant; only the edges hold a Clock. Any thread may call.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Time now() const = 0;
  [[nodiscard]] virtual Instant instant() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
  [[nodiscard]] Instant instant() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace trainyard
