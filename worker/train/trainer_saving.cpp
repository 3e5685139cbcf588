// What a trainer does about checkpoints.
#include <torch/types.h>

#include <cmath>
#include <utility>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/train/save_policy.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

/// Whether the loss of this rank's last step is a number. Waits for the device.
bool is_finite(const torch::Tensor& loss) {
  return std::isfinite(loss.to(torch::kDouble).item<double>());
}

}  // namespace

OrEnd<void> Trainer::mind_checkpoints(const StepFlags& flags) {
  if (!saver_) return {};
  saver_->watch();
  // No rank was saving when the step began: all have the same outcome now, and act on it after the same step.
  if (!flags.is_saving) {
    const auto has_ended = TRY(saver_->settle());
    if (has_ended) report("Training");
  }
  // All ranks have the same metrics, and so find the same one the best.
  const bool was_postponed = std::exchange(is_postponed_, false);
  const bool is_due = std::exchange(is_best_, false) || was_postponed || flags.is_checkpoint_due ||
                      schedule_.is_checkpoint_due(position_);
  const SaveAction action = choose_save({.is_due = is_due,
                                         .is_copy_due = flags.is_copy_due || schedule_.is_copy_due(position_),
                                         .is_asked = flags.is_checkpoint_asked,
                                         .is_stop_asked = flags.is_stop_asked,
                                         .is_saving = flags.is_saving,
                                         .is_saving_copies = saver_->is_copies_only(),
                                         .when_busy = parts_.when_busy});
  switch (action) {
    case SaveAction::none:
      return {};
    case SaveAction::postpone:
      is_postponed_ = true;
      return {};
    case SaveAction::begin_copies:
      begin_save({.save = {.is_copies_only = true}});
      return {};
    case SaveAction::leave_out:
      saver_->leave_out(position_.step);
      return {};
    case SaveAction::save_and_wait:
      return save_and_wait(/*is_complete=*/false);
    case SaveAction::wait_and_begin:
      speed_.pause(parts_.clock.instant());
      TRY(wait_for_save());
      report("Training");
      speed_.resume(parts_.clock.instant());
      [[fallthrough]];
    case SaveAction::begin:
      begin_save({});
  }
  return {};
}

/// Reports, while it waits, why the storage fails.
OrEnd<void> Trainer::wait_for_save() {
  report("Saving");
  return saver_->wait([this] {
    if (saver_->error() != progress_.checkpoint_error) report("Saving");
  });
}

/// After the save under way, if there is one: nothing ends before its manifest is there.
OrEnd<void> Trainer::save_and_wait(bool is_complete) {
  if (!saver_) return {};
  speed_.pause(parts_.clock.instant());
  TRY(wait_for_save());
  report("Saving");
  begin_save({.save = {.is_complete = is_complete}, .must_succeed = true});
  TRY(wait_for_save());
  report("Training");
  speed_.resume(parts_.clock.instant());
  return {};
}

void Trainer::begin_save(const Saver::Options& options) {
  copied_ = parts_.clock.instant();
  if (!options.save.is_copies_only) {
    // Whoever goes on from this checkpoint has the history up to it.
    take_snapshot();
    saved_ = copied_;
  }
  random_.read();
  state_.values = to_json({.position = position_, .metrics = validation_, .best = best_});
  Saver::Options checked = options;
  // A state that is not finite would push the last good checkpoints out of retention, and be what a restart resumes.
  // What was resumed and not trained yet was sound when it was saved.
  checked.save.is_sound = !last_loss_.defined() || is_finite(last_loss_);
  saver_->begin(state_, position_.step, checked);
}

/// Who waits for a checkpoint hears of the end, and another job may now go on from what is there, unless this run
/// failed and is to be repeated.
void Trainer::end_checkpoints(const rank::RankEnd& ended) {
  if (!saver_) return;
  const bool is_in_order = ended.exit_code == contract::exit_success || ended.exit_code == contract::exit_preempted ||
                           ended.exit_code == contract::exit_do_not_restart;
  if (is_in_order) saver_->end(position_.step, ended);
  if (saver_->requests().record() != progress_.checkpoint_request) report(std::string{progress_.phase});
  if (ended.exit_code == contract::exit_success) parts_.checkpointer->remove_copies();
  if (!is_in_order) return;
  if (auto done = parts_.checkpointer->end(); !done) {
    logging::warn("the end of this run was not recorded: no other job can go on from its checkpoints",
                  {{"error", done.error().message}});
  }
}

}  // namespace trainyard::train
