#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.hpp"

namespace trainyard::observe {

/// How fast a job trains, by the time that its steps took: pauses (validating, saving) do not count.
class SpeedMeter {
 public:
  explicit SpeedMeter(Instant start) : since_{start} {}

  /// The whole job has trained on `samples` more.
  void add(std::int64_t samples) { samples_ += samples; }
  /// A pause begins, or has ended.
  void pause(Instant now) { busy_ += now - since_; }
  void resume(Instant now) { since_ = now; }

  /// Samples per second since the last call or the beginning; empty when no time has passed. Begins afresh.
  [[nodiscard]] std::optional<double> take_rate(Instant now);

  /// Time for `samples` more, by a mean of the rates taken so far in which each newer one weighs three tenths. Empty
  /// before the first.
  [[nodiscard]] std::optional<std::chrono::duration<double>> time_for(std::int64_t samples) const;

 private:
  Instant since_;
  std::chrono::nanoseconds busy_{0};
  std::int64_t samples_ = 0;
  std::optional<double> smooth_rate_;
};

}  // namespace trainyard::observe
