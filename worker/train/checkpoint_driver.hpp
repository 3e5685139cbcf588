#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/saver.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/step_agreement.hpp"

namespace trainyard::train {

/// The training whose state a CheckpointDriver saves.
class SavedTraining {
 public:
  virtual ~SavedTraining() = default;
  [[nodiscard]] virtual const Position& position() const = 0;
  /// Waits until the device has done all steps, so that the functions below do not wait for it. An error ends the rank.
  [[nodiscard]] virtual OrEnd<void> settle() = 0;
  /// Ends what changes the parameters beside the training's own steps, until the next step. An error ends the rank.
  [[nodiscard]] virtual OrEnd<void> hold_parameters() = 0;
  /// The state to save, with the values of this moment.
  [[nodiscard]] virtual const checkpoint::State& current_state() = 0;
  /// False when the last loss is not finite: the state is then not worth saving.
  [[nodiscard]] virtual bool is_sound() const = 0;
  virtual void take_snapshot() = 0;
  /// Training waits for a save from now on.
  virtual void pause() = 0;
  /// Training goes on: reports the phase "Training".
  virtual void resume() = 0;
  virtual void report(std::string_view phase) = 0;
  /// The progress that was reported last.
  [[nodiscard]] virtual const rank::RankProgress& reported() const = 0;
};

struct CheckpointSettings {
  api::Every checkpoint_every;
  api::Every copies_every;
  api::WhenBusy when_busy = api::WhenBusy::skip;
  bool is_rank0 = false;
};

/// Decides when a training is saved, and has it saved. All ranks make the same calls after the same steps. Used from
/// the training thread.
class CheckpointDriver {
 public:
  /// References outlive the driver.
  CheckpointDriver(const CheckpointSettings& settings, const Schedule& schedule, SavedTraining& training,
                   checkpoint::Checkpointer& checkpointer, const rank::RankLink& link, const Clock& clock);

  /// Notes that training resumes from `found`, at its present position.
  void resume_from(const checkpoint::Restored& found);
  /// Training begins: `every.time` is measured from now on.
  void begin();
  /// Saves the resumed state if only the nodes have it, because this attempt stops before its first step.
  [[nodiscard]] OrEnd<void> stop_before_first_step();
  /// Begins to save the present state if the last validation was the best, because that validation was made before the
  /// first step. The next after_step() would save parameters that were not validated.
  [[nodiscard]] OrEnd<void> save_if_best();

  /// This rank's flags for the next step, except whether the launcher asked it to stop.
  [[nodiscard]] StepFlags own_flags() const;
  /// Waits until the state of the running save is copied. To be called before the optimizer's step.
  void finish_staging() { saver_.finish_staging(); }
  /// Notes the result of a validation. `is_best`: its metric is the best so far, and the next after_step() saves.
  void note_validation(bool is_best) { is_best_ = is_best; }
  /// Handles the outcome of the previous save, and begins the saves that are due after this step. `flags`: of all
  /// ranks.
  [[nodiscard]] OrEnd<void> after_step(const StepFlags& flags);
  /// Saves the last state of this attempt, after the running save, and waits until its manifest is there.
  [[nodiscard]] OrEnd<void> finish(bool is_final);
  /// Waits for the running save, if there is one, because this attempt ends without another.
  [[nodiscard]] OrEnd<void> finish_running_save();
  /// Returns the end that `train` returns. Then answers a pending request, and lets another job resume from the
  /// checkpoints, unless this run failed and is to be repeated. An InvalidJob that `train` throws is such an end too.
  /// Throws what `train` throws.
  [[nodiscard]] rank::RankEnd end_after(const std::function<rank::RankEnd()>& train);

  /// The newest checkpoint of this attempt.
  [[nodiscard]] const std::optional<rank::SavedCheckpoint>& last() const { return saver_.last(); }
  /// Sets the fields of `progress` that are about checkpoints.
  void add_to(rank::RankProgress& progress) const;

 private:
  [[nodiscard]] OrEnd<void> wait_for_save();
  [[nodiscard]] OrEnd<void> begin_save(Saver::Options options);
  void end(const rank::RankEnd& ended);

  CheckpointSettings settings_;
  const Schedule& schedule_;
  SavedTraining& training_;
  checkpoint::Checkpointer& checkpointer_;
  const rank::RankLink& link_;
  const Clock& clock_;
  Saver saver_;
  Instant saved_;                // when the last checkpoint was begun, or training
  Instant copied_;               // when the last save of any kind was begun, or training
  bool is_postponed_ = false;    // a checkpoint is due once the running copies are written
  bool is_best_ = false;         // the last validation was the best, and is not saved yet
  bool is_from_copies_ = false;  // this attempt resumed from a state that the remote store does not have
};

}  // namespace trainyard::train
