#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "api/training_spec.hpp"

namespace trainyard::train {

/// How far a training has come in its data.
struct Position {
  std::int64_t step = 0;     ///< Optimizer steps done.
  std::int64_t epoch = 0;    ///< Epochs done.
  std::int64_t samples = 0;  ///< Samples of the whole job done in this epoch.
  bool operator==(const Position&) const = default;
};

/// When a run steps, logs, validates, saves and ends. Pure.
class Schedule {
 public:
  /// `samples`: those of an epoch of the whole job, at least 1; nothing where they end by themselves.
  Schedule(const api::TrainingSpec& training, const api::Every& checkpoint_every, std::optional<std::int64_t> samples,
           std::int64_t world_size, const api::Every& copies_every = {});

  [[nodiscard]] bool is_finished(const Position& position) const;
  /// The step that `position` will have when the run is finished; the most that it may have where epochs end by
  /// themselves, and nothing where only they end the run.
  [[nodiscard]] std::optional<std::int64_t> total_steps(const Position& position) const;
  /// How many epochs the run has, including one that is only begun when maxSteps ends it; nothing if that is not known.
  [[nodiscard]] std::optional<std::int64_t> epochs(const Position& position) const;
  /// How many samples the whole job still has to train on; nothing if the number of steps is not known.
  [[nodiscard]] std::optional<std::int64_t> samples_left(const Position& position) const;

  // These need the samples of an epoch:
  /// How many samples an epoch of the whole job has.
  [[nodiscard]] std::int64_t epoch_samples() const { return samples_.value(); }
  /// The position after one more step.
  [[nodiscard]] Position next(const Position& position) const;
  /// The place in its epoch at which the last step before `position` ended.
  [[nodiscard]] std::int64_t end_in_epoch(const Position& position) const {
    return position.samples == 0 ? epoch_samples() : position.samples;
  }
  /// How many batches each rank trains on in the step that begins at `position`: fewer in an epoch's last step.
  [[nodiscard]] std::int64_t batches(const Position& position) const;

  /// Number in its epoch, from 0, of the first batch of the step that begins at `position`.
  [[nodiscard]] std::int64_t batch_index(const Position& position) const {
    return position.samples / samples_per_batch_;
  }
  /// The position in the epoch's samples of batch `batch` of the step that begins at `position`.
  [[nodiscard]] std::int64_t batch_begin(const Position& position, std::int64_t batch) const {
    return position.samples + batch * samples_per_batch_;
  }

  /// The epoch of the step that ended at `position`, from 1.
  [[nodiscard]] static std::int64_t epoch_of(const Position& position) {
    return std::max<std::int64_t>(1, position.epoch + (position.samples > 0 ? 1 : 0));
  }

  // These follow the step that ended at `position`:
  [[nodiscard]] bool is_epoch_end(const Position& position) const { return position.step > 0 && position.samples == 0; }
  [[nodiscard]] bool is_log_due(const Position& position) const;
  [[nodiscard]] bool is_validation_due(const Position& position) const;
  /// By steps and epochs. The trainer handles `checkpoint.every.time` and `best`.
  [[nodiscard]] bool is_checkpoint_due(const Position& position) const;
  /// By steps. The trainer handles `checkpoint.local.every.time`.
  [[nodiscard]] bool is_copy_due(const Position& position) const;
  [[nodiscard]] bool is_snapshot_due(const Position& position) const;
  [[nodiscard]] bool is_parameter_check_due(const Position& position) const;

 private:
  [[nodiscard]] bool is_due(const api::Every& every, const Position& position) const;
  [[nodiscard]] std::int64_t steps_for(std::int64_t samples) const {
    return (samples + samples_per_step_ - 1) / samples_per_step_;
  }

  api::Every log_every_;
  api::Every validate_every_;
  api::Every checkpoint_every_;
  api::Every copies_every_;     // Nothing set: no copies.
  api::Every snapshots_every_;  // Nothing set: no snapshots.
  api::Every checks_every_;     // Nothing set: no checks of the parameters.
  std::optional<std::int64_t> samples_;
  std::int64_t samples_per_batch_;  // of the whole job
  std::int64_t samples_per_step_;
  std::optional<std::int64_t> epochs_;
  std::optional<std::int64_t> max_steps_;
};

}  // namespace trainyard::train
