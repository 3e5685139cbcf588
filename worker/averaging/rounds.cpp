#include "worker/averaging/rounds.hpp"

#include <utility>

namespace trainyard::averaging {

Rounds::Rounds(std::chrono::milliseconds interval, std::function<void()> on_demand)
    : interval_{interval}, on_demand_{std::move(on_demand)} {}

void Rounds::begin(Instant now) {
  change([&] {
    is_on_ = true;
    is_leaving_ = false;
    due_ = now + interval_;
  });
}

void Rounds::leave() {
  change([this] { is_leaving_ = true; });
}

Demand Rounds::demand() const {
  const std::scoped_lock lock{mutex_};
  if (failure_) return Demand::failure;
  // The sum comes before all else: it belongs to the snapshot before, and no rank may leave without it.
  if (is_sum_there_) return Demand::sum;
  if (is_snapshot_wanted_) return Demand::snapshot;
  return is_on_ ? Demand::none : Demand::end;
}

void Rounds::give_snapshot() {
  change([this] { is_snapshot_wanted_ = false; });
}

void Rounds::take_sum() {
  change([this] { is_sum_there_ = false; });
}

std::optional<Failure> Rounds::failure() const {
  const std::scoped_lock lock{mutex_};
  return failure_;
}

std::int64_t Rounds::count() const {
  const std::scoped_lock lock{mutex_};
  return count_;
}

std::optional<Wish> Rounds::wait_for_round(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  if (!changed_.wait(lock, stop, [this] { return is_on_; })) return std::nullopt;
  changed_.wait_until(lock, stop, due_, [this] { return is_leaving_; });
  if (stop.stop_requested()) return std::nullopt;
  return is_leaving_ ? Wish::leave : Wish::average;
}

void Rounds::agree(Wish agreed, Instant now) {
  change([&] {
    is_on_ = agreed == Wish::average;
    if (!is_on_) return;
    is_snapshot_wanted_ = true;
    due_ = now + interval_;
    ++count_;
  });
  on_demand_();
}

bool Rounds::wait_for_snapshot(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  return changed_.wait(lock, stop, [this] { return !is_snapshot_wanted_; });
}

void Rounds::give_sum() {
  change([this] { is_sum_there_ = true; });
  on_demand_();
}

void Rounds::fail(Failure failure) {
  change([&] { failure_ = std::move(failure); });
  on_demand_();
}

void Rounds::change(const std::function<void()>& change) {
  const std::scoped_lock lock{mutex_};
  change();
  changed_.notify_all();
}

}  // namespace trainyard::averaging
