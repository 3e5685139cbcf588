#include "operator/reconcile/shared_calls.hpp"

#include <utility>

namespace trainyard::reconcile {

SharedCalls::SharedCalls(std::size_t count, std::function<Result<void>(std::size_t index)> call,
                         std::function<bool(const Error&)> stops_calls)
    : count_{count}, call_{std::move(call)}, stops_calls_{std::move(stops_calls)} {}

bool SharedCalls::make_next() {
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

void SharedCalls::make_all() {
  while (make_next()) {
  }
}

Result<void> SharedCalls::outcome() const {
  const std::scoped_lock lock{mutex_};
  return outcome_;
}

}  // namespace trainyard::reconcile
