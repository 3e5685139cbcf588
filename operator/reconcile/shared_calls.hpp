#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

#include "common/result.hpp"

namespace trainyard::reconcile {

/// A list of calls, numbered from 0, that several threads share. Each call is made once, and calls begin in order. Any
/// thread may call.
class SharedCalls {
 public:
  /// `call` makes the call `index` on the thread that took it. If `stops_calls` returns true for a call's error, no
  /// further call begins.
  SharedCalls(std::size_t count, std::function<Result<void>(std::size_t index)> call,
              std::function<bool(const Error&)> stops_calls)
      : count_{count}, call_{std::move(call)}, stops_calls_{std::move(stops_calls)} {}

  /// Makes the next call. False if none was left.
  bool make_next() {
    std::size_t index = 0;
    {
      const std::scoped_lock lock{mutex_};
      if (next_ == count_) return false;
      index = next_++;
    }
    auto made = call_(index);
    if (made) return true;
    const std::scoped_lock lock{mutex_};
    if (stops_calls_(made.error())) next_ = count_;
    if (outcome_) outcome_ = std::move(made);
    return true;
  }

  /// Makes calls until none is left to begin. Other threads may still be in their last call then.
  void make_all() {
    while (make_next()) {
    }
  }

  /// The first error that a call returned. Call only after all threads have returned.
  [[nodiscard]] Result<void> outcome() const {
    const std::scoped_lock lock{mutex_};
    return outcome_;
  }

 private:
  const std::size_t count_;
  const std::function<Result<void>(std::size_t)> call_;
  const std::function<bool(const Error&)> stops_calls_;
  mutable std::mutex mutex_;  // guards everything below
  std::size_t next_ = 0;
  Result<void> outcome_;
};

}  // namespace trainyard::reconcile
