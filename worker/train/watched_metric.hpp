#pragma once

#include <string_view>

#include "api/training_spec.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

// The fields of a job that name a metric of its validation.
inline constexpr std::string_view lr_metric_field = "training.lrSchedule.metric";
inline constexpr std::string_view stopping_metric_field = "training.earlyStopping.metric";

/// The metric `name` of a validation's `values`. Throws InvalidJob when the validation has no such metric: the message
/// has `field`, which names the metric in the job, and the metrics that there are.
[[nodiscard]] double watched_metric(const observe::MetricValues& values, std::string_view name, std::string_view field);

/// True when the metrics of a validation change what follows in `training`.
[[nodiscard]] bool decides_by_validation(const api::TrainingSpec& training);

/// Throws InvalidJob when `training`, which has no validation, decides by a metric of one.
void check_watches_nothing(const api::TrainingSpec& training);

}  // namespace trainyard::train
