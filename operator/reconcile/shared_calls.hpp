#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

#include "common/result.hpp"

namespace trainyard::reconcile {

/// A list of calls, numbered from 0, that several threads share. Each call is made once, and calls begin in order. Any
/// thread may call.
class SharedCalls {
 public:
  /// `call` makes the call `index` on the thread that took it. If `stops_calls` returns true for a call's error, no
  /// further call begins.
  SharedCalls(std::size_t count, std::function<Result<void>(std::size_t index)> call,
              std::function<bool(const Error&)> stops_calls);

  /// Makes the next call. False if none was left.
  bool make_next();
  /// Makes calls until none is left to begin. Other threads may still be in their last call then.
  void make_all();
  /// The first error that a call returned. Call only after all threads have returned.
  [[nodiscard]] Result<void> outcome() const;

 private:
  const std::size_t count_;
  const std::function<Result<void>(std::size_t)> call_;
  const std::function<bool(const Error&)> stops_calls_;
  mutable std::mutex mutex_;  // guards everything below
  std::size_t next_ = 0;
  Result<void> outcome_;
};

}  // namespace trainyard::reconcile
