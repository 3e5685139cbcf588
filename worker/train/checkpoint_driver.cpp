#include "worker/train/checkpoint_driver.hpp"

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/save_policy.hpp"

namespace trainyard::train {

CheckpointDriver::CheckpointDriver(const CheckpointSettings& settings, const Schedule& schedule,
                                   SavedTraining& training, checkpoint::Checkpointer& checkpointer,
                                   const rank::RankLink& link, const Clock& clock)
    : settings_{settings},
      schedule_{schedule},
      training_{training},
      checkpointer_{checkpointer},
      link_{link},
      clock_{clock},
      saver_{checkpointer, link, clock, settings.is_rank0},
      saved_{clock.instant()},
      copied_{saved_} {}

void CheckpointDriver::resume_from(const checkpoint::Restored& found) {
  // A request is for a checkpoint that outlives the nodes: a copy does not answer it.
  is_from_copies_ = found.is_local;
  if (!is_from_copies_) saver_.resume_from({.step = training_.position().step, .uri = found.uri});
}

void CheckpointDriver::begin() {
  saved_ = copied_ = clock_.instant();
}

OrEnd<void> CheckpointDriver::stop_before_first_step() {
  return is_from_copies_ ? finish(/*is_final=*/false) : OrEnd<void>{};
}

OrEnd<void> CheckpointDriver::save_if_best() {
  return std::exchange(is_best_, false) ? begin_save({.save = {.may_copy_on_device = false}}) : OrEnd<void>{};
}

StepFlags CheckpointDriver::own_flags() const {
  const auto is_time = [&](const std::optional<std::chrono::milliseconds>& every, Instant last) {
    return settings_.is_rank0 && every && clock_.instant() - last >= *every;
  };
  return {
      .is_stop_asked = saver_.requests().is_exit_asked(),
      .is_checkpoint_due = is_time(settings_.checkpoint_every.time, saved_) || (settings_.is_rank0 && saver_.is_owed()),
      .is_copy_due = is_time(settings_.copies_every.time, copied_),
      .is_checkpoint_asked = saver_.requests().is_save_asked(),
      .is_saving = saver_.is_saving()};
}

OrEnd<void> CheckpointDriver::after_step(const StepFlags& flags) {
  saver_.watch();
  // No rank was saving when the step began: all ranks have the outcome of the save now, and handle it after this step.
  if (!flags.is_saving) {
    const auto has_ended = TRY(saver_.poll_outcome());
    if (has_ended) training_.report("Training");
  }
  // All ranks have equal metrics, and agree which validation is the best.
  const bool was_postponed = std::exchange(is_postponed_, false);
  const bool is_due = std::exchange(is_best_, false) || was_postponed || flags.is_checkpoint_due ||
                      schedule_.is_checkpoint_due(training_.position());
  const SaveAction action =
      choose_save({.is_due = is_due,
                   .is_copy_due = flags.is_copy_due || schedule_.is_copy_due(training_.position()),
                   .is_asked = flags.is_checkpoint_asked,
                   .is_stop_asked = flags.is_stop_asked,
                   .is_saving = flags.is_saving,
                   .is_saving_copies = saver_.is_copies_only(),
                   .when_busy = settings_.when_busy});
  switch (action) {
    case SaveAction::none:
      return {};
    case SaveAction::postpone:
      is_postponed_ = true;
      return {};
    case SaveAction::begin_copies:
      return begin_save({.save = {.is_copies_only = true}});
    case SaveAction::skip:
      saver_.skip(training_.position().step);
      return {};
    case SaveAction::save_and_wait:
      return finish(/*is_final=*/false);
    case SaveAction::wait_and_begin:
      training_.pause();
      TRY(wait_for_save());
      training_.resume();
      [[fallthrough]];
    case SaveAction::begin:
      return begin_save({});
  }
  return {};
}

OrEnd<void> CheckpointDriver::finish(bool is_final) {
  training_.pause();
  TRY(wait_for_save());
  training_.report("Saving");
  TRY(begin_save({.save = {.is_final = is_final}, .must_succeed = true}));
  TRY(wait_for_save());
  training_.resume();
  return {};
}

OrEnd<void> CheckpointDriver::finish_running_save() {
  training_.pause();
  TRY(wait_for_save());
  training_.resume();
  return {};
}

rank::RankEnd CheckpointDriver::end_after(const std::function<rank::RankEnd()>& train) {
  try {
    rank::RankEnd ended = train();
    end(ended);
    return ended;
  } catch (const InvalidJob&) {
    // The job fails. In a broken group the exception often comes of that, and the group is restarted.
    if (!link_.group_failure() && finish_running_save()) end(end_of_exception(std::current_exception(), "the device"));
    throw;
  }
}

void CheckpointDriver::end(const rank::RankEnd& ended) {
  const bool is_in_order = ended.exit_code == contract::exit_success || ended.exit_code == contract::exit_preempted ||
                           ended.exit_code == contract::exit_do_not_restart;
  if (is_in_order) saver_.end(training_.position().step, ended);
  if (saver_.requests().record() != training_.reported().checkpoint_request)
    training_.report(std::string{training_.reported().phase});
  if (ended.exit_code == contract::exit_success) checkpointer_.remove_copies();
  if (!is_in_order) return;
  if (auto done = checkpointer_.end([this] { return link_.is_stop_requested(); }); !done) {
    logging::warn("the end of this run was not recorded: no other job can resume from its checkpoints",
                  {{"error", done.error().message}});
  }
}

void CheckpointDriver::add_to(rank::RankProgress& progress) const {
  progress.checkpoint = saver_.last();
  progress.checkpoint_error = saver_.error();
  progress.checkpoint_request = saver_.requests().record();
}

/// Reports, while it waits, why the storage fails.
OrEnd<void> CheckpointDriver::wait_for_save() {
  training_.report("Saving");
  return saver_.wait([this] {
    if (saver_.error() != training_.reported().checkpoint_error) training_.report("Saving");
  });
}

OrEnd<void> CheckpointDriver::begin_save(Saver::Options options) {
  TRY(training_.hold_parameters());
  // A collective that failed unseen would make a checkpoint of wrong values.
  TRY(training_.settle());
  copied_ = clock_.instant();
  if (!options.save.is_copies_only) {
    // A run that resumes from this checkpoint then has the history up to it.
    training_.take_snapshot();
    saved_ = copied_;
  }
  const checkpoint::State& state = training_.current_state();
  // Checkpoints of a state that is not finite would push the last good ones out of retention, and restarts would resume
  // from them.
  options.save.is_sound = training_.is_sound();
  saver_.begin(state, training_.position().step, options);
  return {};
}

}  // namespace trainyard::train
