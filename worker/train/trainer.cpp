#include "worker/train/trainer.hpp"

#include <ATen/OpMathType.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/train/evaluate.hpp"
#include "worker/train/initial_weights.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/resume.hpp"
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
      schedule_{parts_.training, parts_.checkpoint_every, parts_.train_data.size(), parts_.group.world_size,
                parts_.copies_every},
      agreement_{parts_.group.process_group, follow_or_wait(parts_)},
      timer_{parts_.clock},
      step_{{.module = parts_.module,
             .optimizer = parts_.optimizer,
             .gradients = parts_.gradients,
             .training = parts_.training,
             .process_group = parts_.group.process_group,
             .wait = follow_or_wait(parts_),
             .timer = timer_,
             .device = parts_.device}},
      random_{parts_.device},
      state_{make_state(parts_.module, parts_.optimizer, random_)},
      speed_{parts_.clock.instant()},
      reported_at_{parts_.clock.instant()} {
  if (parts_.training.ema) ema_.emplace(named_parameters(parts_.module), parts_.training.ema->decay);
  std::ranges::move(step_.entries(), std::back_inserter(state_.entries));
  if (ema_) std::ranges::move(ema_->entries(), std::back_inserter(state_.entries));
  if (parts_.checkpointer != nullptr) {
    checkpoints_.emplace(CheckpointSettings{.checkpoint_every = parts_.checkpoint_every,
                                            .copies_every = parts_.copies_every,
                                            .when_busy = parts_.when_busy,
                                            .is_rank0 = is_rank0()},
                         schedule_, static_cast<SavedTraining&>(*this), *parts_.checkpointer, parts_.link,
                         parts_.clock);
  }
  parts_.module.set_metric_sink(&metrics_);
  image_sinks_.add(parts_.snapshots);
  image_sinks_.add(parts_.log_files);
  parts_.module.set_image_sink(&image_sinks_);
}

rank::RankEnd Trainer::run() {
  rank::RankEnd ended = train();
  if (checkpoints_) checkpoints_->end(ended);
  return ended;
}

rank::RankEnd Trainer::train() {
  if (auto begun = begin(); !begun) return begun.error();
  if (auto done = catch_up_on_validation(); !done) return done.error();
  batches_ = open_batches(
      schedule_, position_, parts_.train_data, parts_.training,
      {.self = {.rank = parts_.group.rank, .world_size = parts_.group.world_size}, .device = parts_.device});
  while (!is_over()) {
    if (parts_.tracer != nullptr) parts_.tracer->before_step();
    const auto flags = take_step();
    if (!flags) return flags.error();
    if (parts_.tracer != nullptr) parts_.tracer->after_step();
    if (auto done = after_step(*flags); !done) return done.error();
  }
  if (auto finished = finish(); !finished) return finished.error();
  const auto stopped = reason_to_stop(parts_.training.early_stopping, stopping_);
  return completed(position_.step, validation_, schedule_.is_finished(position_) ? "" : stopped.value_or(""));
}

OrEnd<void> Trainer::begin() {
  if (parts_.validation_data == nullptr) check_watches_nothing(parts_.training);
  report("Loading");
  if (auto done = parts_.gradients.synchronize_model(); !done) return lost(Stage::step, done.error());
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
  speed_ = observe::SpeedMeter{parts_.clock.instant()};
  report("Training");
  // A rank that was asked to stop while it loaded makes no step, and saves what only the nodes have.
  const auto is_stopped = TRY(is_stop_asked());
  if (!is_stopped) return {};
  if (checkpoints_) {
    TRY(checkpoints_->stop_before_first_step());
  }
  return tl::unexpected(preempted());
}

/// True when any rank was asked to stop.
OrEnd<bool> Trainer::is_stop_asked() {
  agreement_.begin(own_flags());
  const auto flags = agreement_.finish();
  if (!flags) return lost(Stage::step, flags.error());
  return flags->is_stop_asked;
}

/// True when there was a checkpoint to resume from.
OrEnd<bool> Trainer::restore() {
  const ResumeOptions options{.training_samples = parts_.train_data.size(), .is_rank0 = is_rank0()};
  const auto resumed = train::resume(*parts_.checkpointer, state_, options);
  if (!resumed) return lost(Stage::checkpoint, resumed.error());
  if (!*resumed) return false;
  const auto& [found, values] = **resumed;
  position_ = values.position;
  is_position_known_ = true;
  validation_ = values.metrics;
  best_ = values.best;
  plateau_ = values.plateau;
  stopping_ = values.stopping;
  owes_validation_ = values.owes_validation;
  random_.write();
  parts_.optimizer.after_restore();
  if (auto done = parts_.gradients.after_restore(); !done) return lost(Stage::step, done.error());
  checkpoints_->resume_from(found);
  if (found.is_final && is_over()) {
    report("Done");
    return tl::unexpected(rank::RankEnd{
        .exit_code = contract::exit_success,
        .reason = "AlreadyComplete",
        .message = fmt::format(
            "already complete: {} is the end of this training; set checkpoint.resume to none to train afresh",
            found.uri),
        .culprit = {}});
  }
  TRY(check_parameters());
  if (is_rank0()) log_resumed(found, parts_.group.world_size);
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
  const auto loaded =
      load_initial_weights({.uri = uri, .sha256 = model.weights_sha256, .s3 = parts_.weights_s3}, parts_.module, state_,
                           *parts_.group.communicator, parts_.start_patience, parts_.clock);
  if (!loaded) return lost(loaded.error().kind == ErrorKind::cancelled ? Stage::step : Stage::data, loaded.error());
  if (auto done = parts_.gradients.synchronize_model(); !done) return lost(Stage::step, done.error());
  return {};
}

OrEnd<StepFlags> Trainer::take_step() {
  timer_.begin();
  if (parts_.snapshots != nullptr) parts_.snapshots->set_step(position_.step + 1);
  if (parts_.log_files != nullptr) parts_.log_files->set_step(position_.step + 1);
  set_lr();
  agreement_.begin(own_flags());
  const auto loss = train_on_batches();
  if (!loss) return lost(Stage::step, loss.error());
  last_loss_ = *loss;
  if (auto done = step_.finish_gradients(); !done) return lost(Stage::step, done.error());
  const auto flags = agreement_.finish();
  if (!flags) return lost(Stage::step, flags.error());
  if (step_.asks_for_losses()) {
    TRY(settle());
  }
  if (const auto bad = step_.bad_loss()) {
    return tl::unexpected(ended_by({.step = position_.step + 1,
                                    .rank = bad->rank,
                                    .loss = bad->loss,
                                    .is_rewound = parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::rewind}));
  }
  timer_.end(observe::StepPart::communication);
  if (checkpoints_) checkpoints_->finish_staging();
  timer_.end(observe::StepPart::checkpoint);
  step_.update();
  if (ema_) ema_->update();

  const Position before = std::exchange(position_, schedule_.next(position_));
  if (step_.grad_norm().defined()) metrics_.log("grad_norm", step_.grad_norm(), {});
  speed_.add(schedule_.samples_between(before, position_));
  if (auto queued = end_queued_step(); !queued) return lost(Stage::step, queued.error());
  timer_.end(observe::StepPart::communication);
  timer_.count_step();
  if (parts_.sample_record) {
    if (auto written = parts_.sample_record->write(position_.step, torch::cat(step_ids_)); !written)
      return end_rank(Stage::data, written.error());
  }
  return *flags;
}

Result<torch::Tensor> Trainer::train_on_batches() {
  const std::int64_t count = schedule_.batches(position_);
  torch::Tensor losses;
  step_ids_.clear();
  for (std::int64_t index = 0; index < count; ++index) {
    const Batch batch = batches_->next();
    timer_.end(observe::StepPart::data);
    if (parts_.sample_record) step_ids_.push_back(batch.ids);
    metrics_.set_batch_size(batch.size());
    const torch::Tensor loss =
        step_.run(batch, schedule_.batch_index(position_) + index, {.index = index, .count = count});
    metrics_.log("loss", loss, {.on_epoch = true});
    const torch::Tensor part = loss.to(at::toOpMathType(loss.scalar_type()));
    losses = index == 0 ? part : losses + part;
    if (index + 1 == count) break;
    parts_.link.beat();
    TRY(end_queued_step());
    timer_.end(observe::StepPart::communication);
  }
  return losses;
}

OrEnd<void> Trainer::after_step(const StepFlags& flags) {
  parts_.link.beat();
  const bool is_last = schedule_.is_finished(position_);
  if (is_first_step_ || is_last || schedule_.is_log_due(position_)) {
    TRY(log_steps());
  }
  if (schedule_.is_epoch_end(position_)) {
    TRY(log_epoch());
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
    timer_.begin();
    TRY(checkpoints_->after_step(agreed));
    timer_.end(observe::StepPart::checkpoint);
  }
  if (agreed.is_stop_asked) return tl::unexpected(preempted());
  if (parts_.clock.instant() - reported_at_ >= report_interval) report("Training");
  return {};
}

OrEnd<void> Trainer::finish() {
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
  report("Done");
  if (is_rank0()) {
    logging::info("training complete", {{"step", position_.step},
                                        {"metrics", to_field(validation_)},
                                        {"exchangedBytes", parts_.gradients.exchanged_bytes()},
                                        {"parametersChecksum", fmt::format("{:016x}", checksum)}});
  }
  return {};
}

OrEnd<void> Trainer::log_steps() {
  timer_.begin();
  TRY(settle());
  timer_.end(observe::StepPart::communication);
  if (changes_lr(parts_.training)) metrics_.log("lr", torch::scalar_tensor(lr_, torch::kDouble), {});
  const observe::RankTimes own{.node = parts_.node, .times = timer_.take()};
  const auto reduced = metrics_.steps().reduce_with_note(*parts_.group.communicator, to_line(own));
  if (!reduced) return lost(Stage::step, reduced.error());
  const observe::MetricValues& values = reduced->values;
  const double loss = values.at("loss");
  progress_.loss = loss;
  if (is_first_step_) {
    // The first step includes one-time set-up, so that its speed is not reported.
    speed_ = observe::SpeedMeter{parts_.clock.instant()};
  } else {
    progress_.step_milliseconds = step_milliseconds(own.times);
    progress_.samples_per_second = speed_.take_rate(parts_.clock.instant());
    const auto left = speed_.time_for(schedule_.samples_left(position_));
    progress_.eta_seconds = left ? std::optional{left->count()} : std::nullopt;
  }
  report("Training");
  std::vector<observe::RankTimes> ranks;
  for (const std::string& note : reduced->notes) ranks.push_back(observe::parse_rank_times(note));
  if (is_rank0())
    log_step(progress_, values, {.is_first_step = is_first_step_, .was_loss_finite = is_loss_finite_, .ranks = ranks});
  observe::MetricValues shown = values;
  if (!is_first_step_ && progress_.samples_per_second) shown["samplesPerSecond"] = *progress_.samples_per_second;
  show(shown, snapshot::Over::steps, is_first_step_ ? observe::MetricValues{} : shown_step_times(ranks));
  is_loss_finite_ = std::isfinite(loss);
  is_first_step_ = false;
  return {};
}

OrEnd<void> Trainer::log_epoch() {
  TRY(settle());
  const auto values = metrics_.epoch().reduce(*parts_.group.communicator);
  if (!values) return lost(Stage::step, values.error());
  if (is_rank0())
    logging::info("epoch done", {{"epoch", position_.epoch}, {"step", position_.step}, {"metrics", to_field(*values)}});
  show(*values, snapshot::Over::epoch);
  return {};
}

/// False when a stop interrupted the validation, which may take longer than the grace period.
OrEnd<bool> Trainer::validate() {
  validated_step_ = position_.step;
  if (parts_.validation_data == nullptr) return true;
  if (parts_.tracer != nullptr) parts_.tracer->end_recording();
  pause();
  report("Validating");
  const auto values = TRY(validation_metrics());
  if (!values) {
    if (is_rank0()) logging::info("validation left: asked to stop", {{"step", position_.step}});
    owes_validation_ = decides_by_validation(parts_.training);
    return false;
  }
  owes_validation_ = false;
  validation_ = *values;
  plateau_ = after_validation(parts_.training, parts_.group.world_size, plateau_, validation_);
  if (const auto& stopping = parts_.training.early_stopping)
    stopping_ = after_validation(*stopping, stopping_, validation_);
  const auto better = parts_.save_at_best ? better_value(*parts_.save_at_best, validation_, best_) : std::nullopt;
  if (better) best_ = better;
  if (checkpoints_) checkpoints_->note_validation(/*is_best=*/better.has_value());
  if (is_rank0()) logging::info("validated", {{"step", position_.step}, {"metrics", to_field(validation_)}});
  show(validation_, snapshot::Over::validation);
  resume();
  return true;
}

/// Makes the validation that a stop interrupted in the attempt before, so that learning rate and early stopping are as
/// if there had been no stop.
OrEnd<void> Trainer::catch_up_on_validation() {
  if (!owes_validation_) return {};
  const auto validated = TRY(validate());
  if (validated) return {};
  if (checkpoints_) {
    TRY(checkpoints_->stop_before_first_step());
  }
  return tl::unexpected(preempted());
}

/// Nothing when a stop interrupted the validation.
OrEnd<std::optional<observe::MetricValues>> Trainer::validation_metrics() {
  const EvaluationRounds rounds{.begin = [this] { agreement_.begin(own_flags()); },
                                .finish = [this]() -> Result<bool> {
                                  parts_.link.beat();
                                  const auto flags = TRY(agreement_.finish());
                                  TRY(end_queued_step());
                                  return !flags.is_stop_asked;
                                },
                                .before_reading = [this]() -> Result<void> {
                                  return parts_.in_flight != nullptr ? parts_.in_flight->finish() : Result<void>{};
                                }};
  const EvaluationOptions options{.batch_size = parts_.training.batch_size,
                                  .device = parts_.device,
                                  .loader_threads = loader_threads(parts_.training.data, *parts_.validation_data),
                                  .format = number_format(parts_.training)};
  Result<std::optional<observe::MetricValues>> values;
  const auto run = [&] {
    values = evaluate(parts_.module, *parts_.validation_data, options, *parts_.group.communicator, rounds);
  };
  if (ema_) {
    // No save is staging the parameters: the step before has waited for that.
    ema_->with_average(run);
  } else {
    run();
  }
  if (!values) return lost(Stage::step, values.error());
  return *values;
}

/// Sets the learning rate of the next step, if the job has a schedule.
void Trainer::set_lr() {
  if (!changes_lr(parts_.training)) return;
  const double factor = lr_factor(parts_.training,
                                  {.step = position_.step,
                                   .epoch = position_.epoch,
                                   .total_steps = schedule_.total_steps(position_),
                                   .world_size = parts_.group.world_size},
                                  plateau_);
  parts_.optimizer.set_lr_factor(factor);
  lr_ = parts_.training.optimizer.lr * factor;
}

bool Trainer::is_over() const {
  return schedule_.is_finished(position_) || reason_to_stop(parts_.training.early_stopping, stopping_).has_value();
}

rank::RankEnd Trainer::preempted() const {
  const bool is_saved = checkpoints_ && checkpoints_->last() && checkpoints_->last()->step == position_.step;
  return train::preempted({.step = position_.step,
                           .has_trained = last_loss_.defined(),
                           .is_saving = checkpoints_.has_value(),
                           .saved_as = is_saved ? checkpoints_->last()->uri : std::string{}});
}

StepFlags Trainer::own_flags() const {
  StepFlags flags = checkpoints_ ? checkpoints_->own_flags() : StepFlags{};
  flags.is_stop_asked = flags.is_stop_asked || parts_.link.is_stop_requested();
  return flags;
}

Result<void> Trainer::end_queued_step() {
  return parts_.in_flight != nullptr ? parts_.in_flight->end_step() : Result<void>{};
}

OrEnd<void> Trainer::settle() {
  if (parts_.in_flight == nullptr) return {};
  if (auto done = parts_.in_flight->finish(); !done) return lost(Stage::step, done.error());
  return {};
}

const checkpoint::State& Trainer::current_state() {
  random_.read();
  parts_.optimizer.before_save();
  parts_.gradients.before_save();
  state_.values = to_json({.position = position_,
                           .metrics = validation_,
                           .best = best_,
                           .plateau = plateau_,
                           .stopping = stopping_,
                           .owes_validation = owes_validation_});
  return state_;
}

bool Trainer::is_sound() const {
  // A step that is skipped changes no parameter.
  if (parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::skip) return true;
  // A state that was resumed and not trained yet was sound when it was saved.
  return !last_loss_.defined() || std::isfinite(last_loss_.to(torch::kDouble).item<double>());
}

void Trainer::resume() {
  report("Training");
  speed_.resume(parts_.clock.instant());
}

void Trainer::report(std::string_view phase) {
  reported_at_ = parts_.clock.instant();
  progress_.phase = phase;
  if (is_position_known_) {
    progress_.step = position_.step;
    progress_.total_steps = schedule_.total_steps(position_);
    progress_.epochs = schedule_.epochs(position_);
    progress_.epoch = Schedule::epoch_of(position_);
  }
  if (const auto accuracy = validation_.find("val_accuracy"); accuracy != validation_.end())
    progress_.accuracy = accuracy->second;
  if (checkpoints_) checkpoints_->add_to(progress_);
  parts_.link.report(progress_);
}

}  // namespace trainyard::train
