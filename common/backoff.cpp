#include "common/backoff.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "common/check.hpp"

namespace trainyard {

std::chrono::milliseconds backoff_delay(const Backoff& backoff, std::int64_t failures, double random) {
  check(backoff.factor >= 1.0 && random >= 0.0 && random < 1.0, "backoff_delay: factor >= 1 and random in [0, 1)");
  if (failures <= 0) return std::chrono::milliseconds{0};
  const auto max = static_cast<double>(backoff.max.count());
  // pow overflows to infinity for many failures, which min() then cuts to max.
  const double delay = std::min(
      max, static_cast<double>(backoff.initial.count()) * std::pow(backoff.factor, static_cast<double>(failures - 1)));
  const double scale = 1.0 + backoff.jitter_share * (2.0 * random - 1.0);
  return std::chrono::milliseconds{static_cast<std::int64_t>(delay * scale)};
}

double random_share() {
  thread_local std::mt19937 random{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(random);
}

}  // namespace trainyard
