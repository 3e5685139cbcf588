#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

#include "common/result.hpp"

namespace trainyard::reconcile {

/// Calls, numbered from 0, that several threads make together: each is made once and in order. Any thread may call.
class SharedCalls {
 public:
  /// `call` makes the call of an index, on the thread that took it. `is_last` says whether after this error no further
  /// call is begun.
  SharedCalls(std::size_t count, std::function<Result<void>(std::size_t index)> call,
              std::function<bool(const Error&)> is_last);

  /// Makes the next call. False: there was none left.
  bool make_next();
  /// Returns when no call is left to begin; other threads may still be within theirs.
  void make_all();
  /// The first error that came back. Only after every thread that makes calls has returned.
  [[nodiscard]] Result<void> outcome() const;

 private:
  const std::size_t count_;
  const std::function<Result<void>(std::size_t)> call_;
  const std::function<bool(const Error&)> is_last_;
  mutable std::mutex mutex_;  // guards everything below
  std::size_t next_ = 0;
  Result<void> outcome_;
};

}  // namespace trainyard::reconcile
