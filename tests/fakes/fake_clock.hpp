#pragma once

#include <mutex>

#include "common/clock.hpp"

namespace trainyard::fakes {

/// A clock whose time changes only when a test advances it. Any thread may read; only the test advances.
class FakeClock final : public Clock {
 public:
  [[nodiscard]] Time now() const override {
    const std::scoped_lock lock{mutex_};
    return start_ + std::chrono::duration_cast<std::chrono::milliseconds>(passed_);
  }
  [[nodiscard]] Instant instant() const override {
    const std::scoped_lock lock{mutex_};
    return Instant{} + passed_;
  }
  void advance(std::chrono::nanoseconds step) {
    const std::scoped_lock lock{mutex_};
    passed_ += step;
  }

 private:
  mutable std::mutex mutex_;  // guards passed_
  Time start_{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  std::chrono::nanoseconds passed_{0};
};

}  // namespace trainyard::fakes
