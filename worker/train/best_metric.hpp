#pragma once

#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

/// The best that a metric was in any validation of a training so far.
struct BestValue {
  std::string metric;
  api::BestMode mode = api::BestMode::max;
  double value = 0.0;
  bool operator==(const BestValue&) const = default;
};

/// `spec`'s metric out of a validation's `values`, where it is better than the `best` before; nothing: it is not, or is
/// not there, or is not finite. A `best` of another metric or mode says nothing. Pure: ranks whose values are equal
/// decide alike.
[[nodiscard]] std::optional<BestValue> better_value(const api::KeepBestSpec& spec, const observe::MetricValues& values,
                                                    const std::optional<BestValue>& best);

}  // namespace trainyard::train
