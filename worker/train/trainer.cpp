#include "worker/train/trainer.hpp"

#include <ATen/OpMathType.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/train/initial_weights.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/streamed_batches.hpp"
#include "worker/train/watched_metric.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

constexpr auto report_interval = 250ms;

/// The wait for collectives whose results only the device reads, and for those on the host while steps are queued.
strategy::WaitForWork follow_or_wait(const TrainerParts& parts) {
  if (parts.in_flight == nullptr) return parts.wait;
  return [in_flight = parts.in_flight](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
    return in_flight->follow(work, what);
  };
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_{std::move(parts)},
      schedule_{parts_.training, parts_.checkpoint_every,
                parts_.train_data ? std::optional{data::epoch_samples(parts_.sampling, parts_.group.world_size)}
                                  : std::nullopt,
                parts_.group.world_size, parts_.copies_every},
      context_{{.process_group = parts_.group.process_group,
                .communicator = *parts_.group.communicator,
                .wait = follow_or_wait(parts_),
                .device = parts_.device,
                .process_sets = parts_.process_sets}},
      agreement_{parts_.group.process_group, follow_or_wait(parts_)},
      log_{{.module = parts_.module,
            .communicator = *parts_.group.communicator,
            .snapshots = parts_.snapshots,
            .log_files = parts_.log_files,
            .node = parts_.node,
            .clock = parts_.clock}},
      step_{{.module = parts_.module,
             .turns = parts_.turns,
             .training = parts_.training,
             .process_group = parts_.group.process_group,
             .wait = follow_or_wait(parts_),
             .replicas = parts_.replicas,
             .timer = log_.timer(),
             .before_update =
                 [this] {
                   if (checkpoints_) checkpoints_->finish_staging();
                 },
             .before_step = [this](auto& name, auto& trained) { callbacks_.before_optimizer_step(name, trained); },
             .device = parts_.device}},
      random_{parts_.device},
      ema_{make_ema(parts_.training.ema, parts_.module, parts_.turns)},
      callbacks_{parts_.module},
      validation_{{.training = parts_.training,
                   .module = parts_.module,
                   .replicas = parts_.replicas,
                   .data = parts_.validation_data,
                   .communicator = *parts_.group.communicator,
                   .checkpoint_spec = parts_.checkpoint_spec,
                   .ema = ema_ ? &*ema_ : nullptr,
                   .has_callbacks = !callbacks_.empty(),
                   .device = parts_.device}},
      reported_at_{parts_.clock.instant()} {
  parts_.module.set_rank_context(&context_);
  if (parts_.replicas != nullptr) parts_.replicas->set_rank_context(&context_);
  std::ranges::move(step_.entries(), std::back_inserter(state_.entries));
  if (ema_) std::ranges::move(ema_->entries(), std::back_inserter(state_.entries));
  std::ranges::move(callbacks_.entries(), std::back_inserter(state_.entries));
  if (parts_.checkpointer != nullptr) {
    checkpoints_.emplace(CheckpointSettings{.checkpoint_every = parts_.checkpoint_every,
                                            .copies_every = parts_.copies_every,
                                            .when_busy = parts_.when_busy,
                                            .is_rank0 = is_rank0()},
                         schedule_, static_cast<SavedTraining&>(*this), *parts_.checkpointer, parts_.link,
                         parts_.clock);
  }
}

rank::RankEnd Trainer::run() {
  return callbacks_.watch(
      [this] { return checkpoints_ ? checkpoints_->end_after([this] { return train(); }) : train(); });
}

rank::RankEnd Trainer::train() {
  if (auto begun = begin(); !begun) return begun.error();
  if (auto done = catch_up_on_validation(); !done) return done.error();
  batches_ = open_batches();
  while (!is_over()) {
    if (parts_.tracer != nullptr) parts_.tracer->before_step();
    const auto flags = take_step();
    if (!flags) return flags.error();
    if (parts_.tracer != nullptr) parts_.tracer->after_step();
    if (auto done = after_step(*flags); !done) return done.error();
  }
  if (auto finished = finish(); !finished) return finished.error();
  const auto by_callback = callbacks_.reason_to_stop();
  const auto stopped = by_callback ? by_callback : validation_.reason_to_stop();
  return completed({.step = position_.step,
                    .loss = progress_.loss,
                    .validation = validation_.values(),
                    .reason_to_stop = schedule_.is_finished(position_) ? "" : stopped.value_or(""),
                    .skipped_steps = step_.skipped_steps()});
}

OrEnd<void> Trainer::begin() {
  if (!validation_.has_data()) check_watches_nothing(parts_.training, parts_.checkpoint_spec);
  report("Loading");
  if (auto done = synchronize_model(parts_.turns); !done) return lost(Stage::step, done.error());
  // Not before, because optimizers make their state here, and parameters in parts have freed other ranks' rows by now.
  add_model_to_state();
  bool has_resumed = false;
  if (parts_.checkpointer != nullptr) {
    // A late pod of a deleted job must not claim the generation of the job that replaced it.
    const auto is_stopped = TRY(is_stop_asked());
    if (is_stopped) return tl::unexpected(preempted());
    has_resumed = TRY(restore());
    if (parts_.snapshots != nullptr) parts_.snapshots->begin(parts_.checkpointer->generation(), position_.step);
  }
  is_position_known_ = true;
  if (parts_.log_files != nullptr) parts_.log_files->begin(position_.step, Schedule::epoch_of(position_));
  TRY(load_weights(has_resumed));
  if (ema_ && !has_resumed) ema_->reset();
  if (checkpoints_) checkpoints_->begin();
  log_.begin();
  report("Training");
  // A rank that was asked to stop while it loaded makes no step, and saves what only the nodes have.
  const auto is_stopped = TRY(is_stop_asked());
  if (!is_stopped) {
    context_.set(position_.step, position_.epoch);
    set_lr();
    callbacks_.train_start();
    return {};
  }
  if (checkpoints_) {
    TRY(checkpoints_->stop_before_first_step());
  }
  return tl::unexpected(preempted());
}

void Trainer::add_model_to_state() {
  checkpoint::State state =
      make_state(parts_.module, optimizer_state(parts_.turns), random_,
                 {.parameters = keep_parameters_equal(parts_.turns), .optimizer = keep_optimizers_equal(parts_.turns)},
                 optimizer_shards(parts_.turns));
  state = with_rows_of_parameters(std::move(state), parts_.turns);
  std::ranges::move(state_.entries, std::back_inserter(state.entries));
  state_ = std::move(state);
}

/// True when there was a checkpoint to resume from.
OrEnd<bool> Trainer::restore() {
  const auto resumed = train::resume(*parts_.checkpointer, state_, resume_options());
  if (!resumed) return lost(Stage::checkpoint, resumed.error());
  if (!*resumed) return false;
  const auto& [found, values] = **resumed;
  position_ = values.position;
  is_position_known_ = true;
  context_.set(position_.step, position_.epoch);
  validation_.restore(values);
  callbacks_.restore(values.is_ended_by_callback);
  random_.write();
  for (OptimizerTurn& turn : parts_.turns) {
    turn.optimizer->after_restore();
    if (auto done = turn.gradients->after_restore(); !done) return lost(Stage::step, done.error());
  }
  checkpoints_->resume_from(found);
  if (found.is_final && is_over()) {
    report("Done");
    return tl::unexpected(already_complete(found.uri, !schedule_.is_finished(position_)));
  }
  TRY(check_parameters());
  if (is_rank0()) log_resumed(found, resume_options());
  return true;
}

OrEnd<void> Trainer::load_weights(bool has_resumed) {
  const api::ModelSpec& model = parts_.training.model;
  const std::string& uri = model.weights;
  if (uri.empty()) return {};
  if (has_resumed) {
    if (is_rank0()) logging::info("training.model.weights is not read: a checkpoint goes before it", {{"uri", uri}});
    return {};
  }
  if (auto done = make_parameters_whole(parts_.turns); !done) return lost(Stage::step, done.error());
  const auto loaded =
      load_initial_weights({.uri = uri, .sha256 = model.weights_sha256, .s3 = parts_.weights_s3}, parts_.module,
                           model_state(parts_.module), *parts_.group.communicator, parts_.start_patience, parts_.clock);
  if (!loaded) return lost(loaded.error().kind == ErrorKind::cancelled ? Stage::step : Stage::data, loaded.error());
  if (auto done = synchronize_model(parts_.turns); !done) return lost(Stage::step, done.error());
  return {};
}

std::unique_ptr<StepBatches> Trainer::open_batches() {
  const BatchPlace place{.self = {.rank = parts_.group.rank, .world_size = parts_.group.world_size},
                         .device = parts_.device};
  if (parts_.train_streams == nullptr)
    return open_sampled_batches(schedule_, position_, *parts_.train_data, parts_.sampling, parts_.training, place);
  return std::make_unique<StreamedBatches>(StreamedBatchesParts{.data = *parts_.train_streams,
                                                                .training = parts_.training,
                                                                .place = place,
                                                                .process_group = parts_.group.process_group,
                                                                .wait = follow_or_wait(parts_),
                                                                .beat = [this] { parts_.link.beat(); }});
}

OrEnd<StepFlags> Trainer::take_step() {
  log_.timer().begin();
  log_.set_step(position_.step + 1);
  context_.set(position_.step, position_.epoch);
  set_lr();
  agreement_.begin(own_flags());
  const auto loss = train_on_batches();
  if (!loss) return lost(Stage::step, loss.error());
  last_loss_ = *loss;
  if (auto done = finish_gradients(); !done) return lost(Stage::step, done.error());
  const auto flags = agreement_.finish();
  if (!flags) return lost(Stage::step, flags.error());
  if (step_.asks_for_losses()) {
    TRY(settle());
  }
  if (const auto bad = step_.bad_loss()) {
    if (checkpoints_) {
      TRY(checkpoints_->finish_running_save());
    }
    return tl::unexpected(ended_by({.step = position_.step + 1,
                                    .rank = bad->rank,
                                    .loss = bad->loss,
                                    .turn = bad->turn,
                                    .is_rewound = parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::rewind}));
  }
  log_.timer().end(observe::StepPart::communication);
  {
    const ProgramCall of_step{" in step ", position_.step + 1};
    batches_->look_ahead();
  }
  log_.timer().end(observe::StepPart::data);
  if (auto updated = update(); !updated) return lost(Stage::step, updated.error());
  if (ema_) ema_->update();

  const auto end = batches_->finish_step(position_);
  if (!end) return lost(Stage::step, end.error());
  const Position before = std::exchange(position_, end->position);
  context_.set(position_.step, before.epoch);
  log_.add_samples(end->samples);
  if (auto queued = end_queued_step(); !queued) return lost(Stage::step, queued.error());
  log_.timer().end(observe::StepPart::communication);
  if (batches_with_samples_ > 0) log_.timer().count_step();
  callbacks_.step_end(last_loss_, batches_with_samples_);
  if (parts_.sample_record) {
    if (auto written = parts_.sample_record->write(position_.step, torch::cat(step_ids_)); !written)
      return end_rank(Stage::data, written.error());
  }
  return *flags;
}

Result<torch::Tensor> Trainer::train_on_batches() {
  const ProgramCall of_step{" in step ", position_.step + 1};
  const std::int64_t count = TRY(batches_->begin_step(position_));
  torch::Tensor losses;
  step_ids_.clear();
  batches_with_samples_ = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    const Batch batch = batches_->next();
    log_.timer().end(observe::StepPart::data);
    if (parts_.sample_record) step_ids_.push_back(batch.ids);
    // A batch without samples counts as one, so that what a callback logs after it has a weight.
    log_.metrics().set_batch_size(std::max<std::int64_t>(1, batch.size()));
    const torch::Tensor loss =
        TRY(step_.run(batch, schedule_.batch_index(position_) + index, {.index = index, .count = count}));
    if (batch.size() > 0) log_.metrics().log_own("loss", loss, {.on_epoch = true});
    batches_with_samples_ += batch.size() > 0 ? 1 : 0;
    const torch::Tensor part = loss.to(at::toOpMathType(loss.scalar_type()));
    losses = index == 0 ? part : losses + part;
    if (index + 1 == count) break;
    parts_.link.beat();
    TRY(end_queued_step());
    log_.timer().end(observe::StepPart::communication);
  }
  return losses;
}

OrEnd<void> Trainer::after_step(const StepFlags& flags) {
  parts_.link.beat();
  if (flags.is_end_asked) callbacks_.end_training();
  const bool is_last = is_over();
  if (log_.is_first_line() || is_last || schedule_.is_log_due(position_)) {
    TRY(log_steps());
  }
  if (schedule_.is_epoch_end(position_)) {
    TRY(log_epoch());
    callbacks_.epoch_end();
  }
  if (is_last) return {};  // finish() validates, checks and saves.
  if (schedule_.is_parameter_check_due(position_)) {
    TRY(check_parameters());
  }
  StepFlags agreed = flags;
  if (schedule_.is_validation_due(position_)) {
    const auto validated = TRY(validate());
    agreed.is_stop_asked = agreed.is_stop_asked || !validated;
    if (is_over()) return {};  // It stops early: finish() saves.
  }
  if (schedule_.is_snapshot_due(position_) || (parts_.snapshots != nullptr && parts_.snapshots->is_full())) {
    TRY(settle());
    take_snapshot();
  }
  if (checkpoints_) {
    log_.timer().begin();
    TRY(checkpoints_->after_step(agreed));
    log_.timer().end(observe::StepPart::checkpoint);
  }
  if (agreed.is_stop_asked) {
    TRY(hold_parameters());  // So that no rank waits in a round for one that has gone.
    return tl::unexpected(preempted());
  }
  if (parts_.clock.instant() - reported_at_ >= report_interval) report("Training");
  return {};
}

OrEnd<void> Trainer::finish() {
  TRY(hold_parameters());
  if (validated_step_ != position_.step) {
    const auto validated = TRY(validate());
    if (!validated) {
      // The next attempt then only has to validate.
      if (checkpoints_) {
        TRY(checkpoints_->finish(/*is_final=*/false));
      }
      return tl::unexpected(preempted());
    }
  }
  const auto checksum = TRY(check_parameters());
  if (checkpoints_) {
    TRY(checkpoints_->finish(/*is_final=*/true));
  }
  report("Saving");  // A callback may store things for as long as it likes.
  callbacks_.train_end();
  report("Done");
  if (is_rank0()) log_complete(position_.step, validation_.values(), exchanged_bytes(parts_.turns), checksum);
  return {};
}

OrEnd<void> Trainer::log_steps() {
  log_.timer().begin();
  TRY(settle());
  log_.timer().end(observe::StepPart::communication);
  if (log_.is_first_line() && parts_.after_first_step) parts_.after_first_step();
  if (changes_lr(parts_.training)) log_.log_learning_rate(context_.learning_rate());
  update_progress();
  if (auto shown = log_.show_steps(progress_, position_, samples_left()); !shown)
    return lost(Stage::step, shown.error());
  report("Training");
  return {};
}

OrEnd<void> Trainer::log_epoch() {
  TRY(settle());
  if (auto shown = log_.show_epoch(position_); !shown) return lost(Stage::step, shown.error());
  return {};
}

/// False when a stop interrupted the validation, which may take longer than the grace period.
OrEnd<bool> Trainer::validate() {
  validated_step_ = position_.step;
  context_.set(position_.step, Schedule::epoch_of(position_) - 1);
  if (!validation_.has_data()) return true;
  if (parts_.tracer != nullptr) parts_.tracer->end_recording();
  pause();
  TRY(hold_parameters());
  report("Validating");
  const auto is_done = run_validation();
  if (!is_done) return lost(Stage::step, is_done.error());
  if (!*is_done) {
    if (is_rank0()) logging::info("validation left: asked to stop", {{"step", position_.step}});
    return false;
  }
  if (checkpoints_) checkpoints_->note_validation(validation_.is_best());
  log_.show_validation(position_, validation_.values());
  callbacks_.validation_end(validation_.values());
  resume();
  return true;
}

/// Makes the validation that a stop interrupted in the attempt before, so that learning rate and early stopping are as
/// if there had been no stop.
OrEnd<void> Trainer::catch_up_on_validation() {
  if (!validation_.is_owed()) return {};
  const auto validated = TRY(validate());
  if (validated) return checkpoints_ && !is_over() ? checkpoints_->save_if_best() : OrEnd<void>{};
  if (checkpoints_) {
    TRY(checkpoints_->stop_before_first_step());
  }
  return tl::unexpected(preempted());
}

EvaluationRounds Trainer::evaluation_rounds() {
  return {.begin = [this] { agreement_.begin(own_flags()); },
          .finish = [this]() -> Result<bool> {
            parts_.link.beat();
            const auto flags = TRY(agreement_.finish());
            TRY(end_queued_step());
            return !flags.is_stop_asked;
          },
          .run_step = [this](const auto& step) { return read_parameters(parts_.turns, step); },
          .before_reading = [this]() -> Result<void> {
            return parts_.in_flight != nullptr ? parts_.in_flight->finish() : Result<void>{};
          }};
}

/// Sets the learning rate of the next step, if the job has a schedule.
void Trainer::set_lr() {
  if (!changes_lr(parts_.training)) return context_.set_learning_rate(parts_.training.optimizer.lr);
  const double factor = lr_factor(parts_.training,
                                  {.step = position_.step,
                                   .epoch = position_.epoch,
                                   // Without a number there is no schedule that needs one: check_steps_are_known().
                                   .total_steps = schedule_.total_steps(position_).value_or(1),
                                   .world_size = parts_.group.world_size},
                                  validation_.plateau());
  for (OptimizerTurn& turn : parts_.turns) turn.optimizer->set_lr_factor(factor);
  context_.set_learning_rate(parts_.training.optimizer.lr * factor);
}

bool Trainer::is_over() const {
  return schedule_.is_finished(position_) || callbacks_.is_ended() || validation_.reason_to_stop().has_value();
}

StepFlags Trainer::own_flags() const {
  StepFlags flags = checkpoints_ ? checkpoints_->own_flags() : StepFlags{};
  flags.is_stop_asked = flags.is_stop_asked || parts_.link.is_stop_requested();
  flags.is_end_asked = callbacks_.wants_stop();
  return flags;
}

const checkpoint::State& Trainer::current_state() {
  random_.read();
  for (OptimizerTurn& turn : parts_.turns) {
    turn.optimizer->before_save();
    turn.gradients->before_save();
  }
  callbacks_.before_save();
  TrainingValues values{.position = position_, .metrics = {}, .is_ended_by_callback = callbacks_.is_ended()};
  if (parts_.train_streams != nullptr) {
    values.epoch_samples = unknown_epoch_samples;
  } else if (data::has_epochs_of_own_size(parts_.sampling)) {
    values.epoch_samples = schedule_.epoch_samples();
  }
  values.order_sizes = parts_.sampling.order_sizes;
  validation_.add_to(values);
  state_.values = to_json(values);
  return state_;
}

bool Trainer::is_sound() const {
  // A step that is skipped changes no parameter.
  if (parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::skip) return true;
  // A state that was resumed and not trained yet was sound when it was saved.
  return !last_loss_.defined() || std::isfinite(last_loss_.to(torch::kDouble).item<double>());
}

/// Fills what the progress says of the position, the last validation and the checkpoints.
void Trainer::update_progress() {
  if (is_position_known_) {
    progress_.step = position_.step;
    progress_.total_steps = schedule_.total_steps(position_);
    progress_.epochs = schedule_.epochs(position_);
    progress_.epoch = Schedule::epoch_of(position_);
  }
  const observe::MetricValues& metrics = validation_.values();
  if (const auto accuracy = metrics.find("val_accuracy"); accuracy != metrics.end())
    progress_.accuracy = accuracy->second;
  if (checkpoints_) checkpoints_->add_to(progress_);
}

void Trainer::report(std::string_view phase) {
  reported_at_ = parts_.clock.instant();
  progress_.phase = phase;
  update_progress();
  parts_.link.report(progress_);
}

}  // namespace trainyard::train
