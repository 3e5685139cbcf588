#pragma once

#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

/// The best value of a metric in all validations of a training so far.
struct BestValue {
  std::string metric;
  api::BestMode mode = api::BestMode::max;
  double value = 0.0;
  bool operator==(const BestValue&) const = default;
};

/// The value of `spec`'s metric in a validation's `values`, if it is better than `best`. Nothing when the value is not
/// better, missing or not finite. A `best` of another metric or mode is ignored. Pure: ranks with equal values decide
/// alike.
[[nodiscard]] std::optional<BestValue> better_value(const api::KeepBestSpec& spec, const observe::MetricValues& values,
                                                    const std::optional<BestValue>& best);

}  // namespace trainyard::train
