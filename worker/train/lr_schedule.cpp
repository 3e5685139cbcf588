#include "worker/train/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/train/watched_metric.hpp"

namespace trainyard::train {
namespace {

constexpr double least_reduction = 1e-8;  // ReduceLROnPlateau's eps: a smaller change is not made.

double scaled_lr(const api::OptimizerSpec& optimizer, std::int64_t world_size) {
  return optimizer.lr * api::lr_factor(optimizer.lr_scaling, world_size);
}

std::int64_t multiples(std::int64_t value, const std::optional<std::int64_t>& of) {
  return of ? value / *of : 0;
}

/// The part of the scaled rate, without warm-up. `end`: the part at the training's end.
double part_of(const api::LrScheduleSpec& schedule, const LrPoint& point, double end, const PlateauState& plateau) {
  const double progress = std::min(
      1.0, static_cast<double>(point.step) / static_cast<double>(std::max<std::int64_t>(1, point.total_steps)));
  switch (schedule.name) {
    case api::LrScheduleName::constant:
      return 1.0;
    case api::LrScheduleName::step:
      return std::pow(schedule.factor, static_cast<double>(multiples(point.step, schedule.every.steps) +
                                                           multiples(point.epoch, schedule.every.epochs)));
    case api::LrScheduleName::linear:
      return 1.0 + (end - 1.0) * progress;
    case api::LrScheduleName::cosine:
      return end + (1.0 - end) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
    case api::LrScheduleName::plateau:
      return plateau.factor;
  }
  return 1.0;
}

bool beats(const api::LrScheduleSpec& schedule, double value, const std::optional<BestValue>& best) {
  if (!std::isfinite(value)) return false;
  if (!best) return true;
  const double least_gain = schedule.threshold * std::abs(best->value);
  return schedule.mode == api::BestMode::min ? value < best->value - least_gain : value > best->value + least_gain;
}

}  // namespace

bool changes_lr(const api::TrainingSpec& training) {
  return training.lr_schedule != api::LrScheduleSpec{} || training.optimizer.lr_scaling != api::LrScaling::none;
}

double lr_factor(const api::TrainingSpec& training, const LrPoint& point, const PlateauState& plateau) {
  const api::LrScheduleSpec& schedule = training.lr_schedule;
  const double end = schedule.min_lr / scaled_lr(training.optimizer, point.world_size);
  const double warm = point.step < schedule.warmup_steps
                          ? static_cast<double>(point.step + 1) / static_cast<double>(schedule.warmup_steps)
                          : 1.0;
  return api::lr_factor(training.optimizer.lr_scaling, point.world_size) * part_of(schedule, point, end, plateau) *
         warm;
}

PlateauState after_validation(const api::TrainingSpec& training, std::int64_t world_size, const PlateauState& state,
                              const observe::MetricValues& values) {
  const api::LrScheduleSpec& schedule = training.lr_schedule;
  if (schedule.name != api::LrScheduleName::plateau) return state;
  const double value = watched_metric(values, schedule.metric, lr_metric_field);
  PlateauState next = state;
  if (next.best && (next.best->metric != schedule.metric || next.best->mode != schedule.mode)) {
    next.best.reset();
    next.bad_count = 0;
  }
  if (beats(schedule, value, next.best)) {
    next.best = BestValue{.metric = schedule.metric, .mode = schedule.mode, .value = value};
    next.bad_count = 0;
  } else {
    ++next.bad_count;
  }
  if (next.bad_count <= schedule.patience) return next;
  next.bad_count = 0;
  const double lr = scaled_lr(training.optimizer, world_size);
  const double reduced = std::max(lr * next.factor * schedule.factor, schedule.min_lr);
  if (lr * next.factor - reduced > least_reduction) next.factor = reduced / lr;
  return next;
}

}  // namespace trainyard::train
