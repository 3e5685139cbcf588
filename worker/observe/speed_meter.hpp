#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace trainyard::observe {

/// Measures how fast a job trains. The time of pauses (validating, saving) is left out.
class SpeedMeter {
 public:
  explicit SpeedMeter(Instant start) : since_{start} {}

  /// Adds `samples` that the whole job has trained on.
  void add(std::int64_t samples) { samples_ += samples; }
  /// Begin and end a pause.
  void pause(Instant now) { busy_ += now - since_; }
  void resume(Instant now) { since_ = now; }

  /// Samples per second since the last call, or since the start; empty when no time has passed.
  [[nodiscard]] std::optional<double> take_rate(Instant now);

  /// The expected time for `samples` more, by the moving average of the rates of take_rate(), in which each new rate
  /// has a weight of 0.3. Empty before the first rate.
  [[nodiscard]] std::optional<std::chrono::duration<double>> time_for(std::int64_t samples) const;

 private:
  Instant since_;
  std::chrono::nanoseconds busy_{0};
  std::int64_t samples_ = 0;
  std::optional<double> smooth_rate_;
};

}  // namespace trainyard::observe
