#include "worker/train/schedule.hpp"

#include <algorithm>
#include <limits>

#include "common/check.hpp"

namespace trainyard::train {
namespace {

constexpr api::Every each_epoch{.steps = {}, .epochs = 1, .time = {}};

bool is_multiple(std::int64_t value, const std::optional<std::int64_t>& of) {
  return of && value % *of == 0;
}

bool is_unset(const api::Every& every) {
  return !every.steps && !every.epochs && !every.time && !every.best;
}

}  // namespace

Schedule::Schedule(const api::TrainingSpec& training, const api::Every& checkpoint_every,
                   std::optional<std::int64_t> samples, std::int64_t world_size, const api::Every& copies_every)
    : log_every_{training.log_every},
      validate_every_{training.validate_every.value_or(each_epoch)},
      checkpoint_every_{is_unset(checkpoint_every) ? each_epoch : checkpoint_every},
      copies_every_{copies_every},
      snapshots_every_{training.snapshots ? training.snapshots->every : api::Every{}},
      checks_every_{.steps = training.strategy.check_parameters_every, .epochs = {}, .time = {}},
      samples_{samples},
      samples_per_batch_{training.batch_size * world_size},
      samples_per_step_{samples_per_batch_ * training.accumulate_grad_batches},
      epochs_{training.epochs},
      max_steps_{training.max_steps} {
  check(samples_.value_or(1) > 0 && samples_per_step_ > 0, "there are samples to train on");
  if (!epochs_ && !max_steps_) epochs_ = 1;
}

bool Schedule::is_finished(const Position& position) const {
  return (epochs_ && position.epoch >= *epochs_) || (max_steps_ && position.step >= *max_steps_);
}

Position Schedule::next(const Position& position) const {
  const std::int64_t samples = position.samples + samples_per_step_;
  if (samples >= epoch_samples()) return {.step = position.step + 1, .epoch = position.epoch + 1, .samples = 0};
  return {.step = position.step + 1, .epoch = position.epoch, .samples = samples};
}

std::int64_t Schedule::batches(const Position& position) const {
  const std::int64_t samples = std::min(samples_per_step_, epoch_samples() - position.samples);
  return (samples + samples_per_batch_ - 1) / samples_per_batch_;
}

std::optional<std::int64_t> Schedule::total_steps(const Position& position) const {
  if (is_finished(position)) return position.step;
  if (!samples_) return max_steps_;
  std::int64_t total = std::numeric_limits<std::int64_t>::max();
  if (epochs_) {
    total = position.step + steps_for(*samples_ - position.samples) +
            (*epochs_ - position.epoch - 1) * steps_for(*samples_);
  }
  return max_steps_ ? std::min(total, *max_steps_) : total;
}

std::optional<std::int64_t> Schedule::epochs(const Position& position) const {
  if (!samples_) return max_steps_ ? std::nullopt : epochs_;
  const std::int64_t steps_left = *total_steps(position) - position.step;
  const std::int64_t steps_left_in_epoch = steps_for(*samples_ - position.samples);
  const std::int64_t begun = position.epoch + (steps_left > 0 || position.samples > 0 ? 1 : 0);
  const std::int64_t beyond = std::max<std::int64_t>(0, steps_left - steps_left_in_epoch);
  const std::int64_t steps_per_epoch = steps_for(*samples_);
  return std::max<std::int64_t>(1, begun + (beyond + steps_per_epoch - 1) / steps_per_epoch);
}

std::optional<std::int64_t> Schedule::samples_left(const Position& position) const {
  const auto total = total_steps(position);
  if (!total) return std::nullopt;
  const std::int64_t steps = *total - position.step;
  if (!samples_) return steps * samples_per_step_;
  const std::int64_t steps_in_epoch = steps_for(*samples_ - position.samples);
  if (steps < steps_in_epoch) return steps * samples_per_step_;
  // The last step of an epoch may have fewer samples than the others.
  const std::int64_t beyond = steps - steps_in_epoch;
  const std::int64_t steps_per_epoch = steps_for(*samples_);
  return *samples_ - position.samples + beyond / steps_per_epoch * *samples_ +
         beyond % steps_per_epoch * samples_per_step_;
}

bool Schedule::is_log_due(const Position& position) const {
  return is_due(log_every_, position);
}

bool Schedule::is_validation_due(const Position& position) const {
  return is_due(validate_every_, position);
}

bool Schedule::is_checkpoint_due(const Position& position) const {
  return is_due(checkpoint_every_, position);
}

bool Schedule::is_copy_due(const Position& position) const {
  return is_due(copies_every_, position);
}

bool Schedule::is_snapshot_due(const Position& position) const {
  return is_due(snapshots_every_, position);
}

bool Schedule::is_parameter_check_due(const Position& position) const {
  return is_due(checks_every_, position);
}

bool Schedule::is_due(const api::Every& every, const Position& position) const {
  if (position.step == 0) return false;
  return is_multiple(position.step, every.steps) ||
         (is_epoch_end(position) && is_multiple(position.epoch, every.epochs));
}

}  // namespace trainyard::train
