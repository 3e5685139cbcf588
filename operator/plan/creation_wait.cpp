#include "operator/plan/creation_wait.hpp"

#include <algorithm>

#include "common/backoff.hpp"

namespace trainyard::plan {
namespace {

using std::chrono::milliseconds;

/// A quota or an admission rule may change at any time, and no event announces the change.
constexpr Backoff refusal_backoff{.initial = milliseconds{1'000}, .max = milliseconds{30'000}};

}  // namespace

milliseconds time_until_asked_again(const Observed& observed, Time now) {
  if (!observed.refusal) return {};
  const Time next = observed.refusal->last + backoff_delay(refusal_backoff, observed.refusal->count, 0.5);
  return std::max(milliseconds{0}, next - now);
}

milliseconds time_until_creation(const Observed& observed, Time now) {
  const Time earliest = observed.job.status.restart_not_before.value_or(now);
  return std::max({milliseconds{0}, earliest - now, time_until_asked_again(observed, now)});
}

}  // namespace trainyard::plan
