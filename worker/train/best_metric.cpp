#include "worker/train/best_metric.hpp"

#include <cmath>

namespace trainyard::train {

std::optional<BestValue> better_value(const api::KeepBestSpec& spec, const observe::MetricValues& values,
                                      const std::optional<BestValue>& best) {
  const auto found = values.find(spec.metric);
  if (found == values.end() || !std::isfinite(found->second)) return std::nullopt;
  const BestValue candidate{.metric = spec.metric, .mode = spec.mode, .value = found->second};
  if (!best || best->metric != spec.metric || best->mode != spec.mode) return candidate;
  const bool is_better =
      spec.mode == api::BestMode::max ? candidate.value > best->value : candidate.value < best->value;
  return is_better ? std::optional{candidate} : std::nullopt;
}

}  // namespace trainyard::train
