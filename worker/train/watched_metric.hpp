#pragma once

#include <string_view>

#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

/// The metric `name` of a validation's `values`. Throws InvalidJob when the validation has no such metric: the message
/// has `field`, which names the metric in the job, and the metrics that there are.
[[nodiscard]] double watched_metric(const observe::MetricValues& values, std::string_view name, std::string_view field);

}  // namespace trainyard::train
