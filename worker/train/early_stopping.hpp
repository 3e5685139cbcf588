#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {

/// The validations so far, as early stopping needs them. A checkpoint holds it.
struct StoppingState {
  std::optional<BestValue> best{};
  std::int64_t bad_count = 0;  ///< Validations since the best one.
  bool operator==(const StoppingState&) const = default;
};

/// The state after a validation that gave `values`. Pure. Throws InvalidJob, with the metrics that there are, when
/// `spec`'s metric is not among `values`. A value that is not finite is no better than any.
[[nodiscard]] StoppingState after_validation(const api::EarlyStoppingSpec& spec, const StoppingState& state,
                                             const observe::MetricValues& values);

/// Why the training ends now, as the end of a sentence; nothing while it goes on. Pure.
[[nodiscard]] std::optional<std::string> reason_to_stop(const std::optional<api::EarlyStoppingSpec>& spec,
                                                        const StoppingState& state);

}  // namespace trainyard::train
