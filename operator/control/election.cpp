#include "operator/control/election.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace trainyard::control {
namespace {

using std::chrono::seconds;

/// True when no candidate wrote to the lease in between. A person's annotation changes the resource version only, and
/// is no renewal.
bool is_same_record(const std::optional<Lease>& left, const std::optional<Lease>& right) {
  if (!left || !right) return left.has_value() == right.has_value();
  Lease compared = *right;
  compared.resource_version = left->resource_version;
  return *left == compared;
}

}  // namespace

Instant Election::expires_at() const {
  if (!seen_ || seen_->holder.empty()) return changed_at_;
  // Bounded, because a lease written by hand may have any duration.
  return changed_at_ + std::clamp(seen_->duration, seconds{1}, seconds{60});
}

Election::Action Election::next_action(Instant now) const {
  if (now < next_action_at_) return Action::wait;
  if (!is_fresh_) return Action::read;
  if (!seen_) return Action::create;
  if (is_ours()) return Action::renew;
  return now >= expires_at() ? Action::take : Action::read;
}

void Election::observe(const std::optional<Lease>& lease, Instant now) {
  if (!is_same_record(seen_, lease)) changed_at_ = now;
  seen_ = lease;
  is_fresh_ = true;
  next_action_at_ = now;
  if (is_ours()) return;
  leader_until_ = Instant{};
  if (now < expires_at()) next_action_at_ = std::min(now + times_.retry, expires_at());
}

void Election::hold(const Lease& lease, Instant asked_at) {
  seen_ = lease;
  is_fresh_ = true;
  changed_at_ = asked_at;
  leader_until_ = asked_at + times_.give_up;
  next_action_at_ = asked_at + times_.renew;
}

void Election::fail(Instant now) {
  is_fresh_ = false;
  next_action_at_ = now + times_.retry;
}

Lease Election::to_write(std::string name_space, std::string name, Time calendar) const {
  Lease lease = seen_.value_or(Lease{});
  lease.name_space = std::move(name_space);
  lease.name = std::move(name);
  if (!is_ours()) {
    if (seen_) ++lease.transitions;
    lease.acquired = calendar;
  }
  lease.holder = holder_;
  lease.duration = std::chrono::duration_cast<seconds>(times_.lease);
  lease.renewed = calendar;
  return lease;
}

Lease Election::to_release(Time calendar) const {
  check(is_ours(), "only a lease of ours is given back");
  Lease lease = *seen_;
  lease.holder.clear();
  lease.duration = seconds{1};
  lease.renewed = calendar;
  return lease;
}

}  // namespace trainyard::control
