#include "worker/observe/speed_meter.hpp"

namespace trainyard::observe {

std::optional<double> SpeedMeter::take_rate(Instant now) {
  constexpr double newest_share = 0.3;
  const std::chrono::duration<double> busy = busy_ + (now - since_);
  if (busy.count() <= 0.0) return std::nullopt;
  const double rate = static_cast<double>(samples_) / busy.count();
  smooth_rate_ = smooth_rate_ ? *smooth_rate_ + newest_share * (rate - *smooth_rate_) : rate;
  since_ = now;
  busy_ = std::chrono::nanoseconds{0};
  samples_ = 0;
  return rate;
}

std::optional<std::chrono::duration<double>> SpeedMeter::time_for(std::int64_t samples) const {
  if (!smooth_rate_ || *smooth_rate_ <= 0.0) return std::nullopt;
  return std::chrono::duration<double>{static_cast<double>(samples) / *smooth_rate_};
}

}  // namespace trainyard::observe
