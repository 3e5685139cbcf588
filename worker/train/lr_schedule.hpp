#pragma once

#include <cstdint>
#include <optional>

#include "api/training_spec.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {

/// The state of a plateau schedule after the validations so far. A checkpoint holds it.
struct PlateauState {
  double factor = 1.0;              ///< Factor of the scaled rate.
  std::optional<BestValue> best{};  ///< The best of the validations so far.
  std::int64_t bad_count = 0;       ///< Validations since the best one, or since the last reduction.
  bool operator==(const PlateauState&) const = default;
};

/// How far a training has come when it makes its next step.
struct LrPoint {
  std::int64_t step = 0;         ///< Optimizer steps done.
  std::int64_t epoch = 0;        ///< Epochs done.
  std::int64_t total_steps = 1;  ///< Optimizer steps of the whole training.
  std::int64_t world_size = 1;
};

/// True when `training` changes the rate of optimizer.lr in any step, by lrSchedule or by lrScaling.
[[nodiscard]] bool changes_lr(const api::TrainingSpec& training);

/// The factor of optimizer.lr, and of the rate of each group of parameters, in the step after `point`. Pure.
/// Formulas: torch.optim.lr_scheduler's StepLR, LinearLR, CosineAnnealingLR and ReduceLROnPlateau, by steps; the
/// scaling by the number of ranks is that of Goyal et al. 2017. The warm-up leads from nearly 0 to the scaled rate, and
/// theirs from the rate of one rank.
[[nodiscard]] double lr_factor(const api::TrainingSpec& training, const LrPoint& point, const PlateauState& plateau);

/// The state of a plateau schedule after a validation that gave `values`; `state` itself for other schedules. Pure.
/// Source: ReduceLROnPlateau with a relative threshold and no cooldown. Throws InvalidJob, with the metrics that there
/// are, when the schedule's metric is not among `values`.
[[nodiscard]] PlateauState after_validation(const api::TrainingSpec& training, std::int64_t world_size,
                                            const PlateauState& state, const observe::MetricValues& values);

}  // namespace trainyard::train
