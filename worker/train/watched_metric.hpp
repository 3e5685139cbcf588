#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// The fields of a job that name a metric of its validation.
inline constexpr std::string_view lr_metric_field = "training.lrSchedule.metric";
inline constexpr std::string_view stopping_metric_field = "training.earlyStopping.metric";
inline constexpr std::string_view best_metric_field = "checkpoint.keep.best.metric";

/// The metric `name` of a validation's `values`. Throws InvalidJob when the validation has no such metric: the message
/// has `field`, which names the metric in the job, and the metrics that there are.
[[nodiscard]] double watched_metric(const observe::MetricValues& values, std::string_view name, std::string_view field);

/// True when the metrics of a validation change what follows in `training`.
[[nodiscard]] bool decides_by_validation(const api::TrainingSpec& training);

/// Throws InvalidJob when a job without a validation decides by a metric of one. `checkpoint`: nullptr for a job
/// without checkpoints.
void check_watches_nothing(const api::TrainingSpec& training, const api::CheckpointSpec* checkpoint);

}  // namespace trainyard::train
