#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/data/sampling.hpp"
#include "worker/dist/group.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/strategy/model_agreement.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/callbacks.hpp"
#include "worker/train/checkpoint_driver.hpp"
#include "worker/train/ema.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/log_files.hpp"
#include "worker/train/lr_schedule.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimization_step.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/process_sets.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/rank_context.hpp"
#include "worker/train/resume.hpp"
#include "worker/train/sample_record.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/snapshot_taker.hpp"
#include "worker/train/step_agreement.hpp"
#include "worker/train/step_batches.hpp"
#include "worker/train/tracer.hpp"
#include "worker/train/training_log.hpp"
#include "worker/train/training_state.hpp"
#include "worker/train/validation.hpp"

namespace trainyard::train {

/// The parts of a run that the trainer uses. References outlive the trainer.
struct TrainerParts {
  const api::TrainingSpec& training;
  api::Every checkpoint_every;
  api::Every copies_every;  ///< For copies on the nodes. Nothing set: only with checkpoints.
  api::WhenBusy when_busy = api::WhenBusy::skip;
  const api::CheckpointSpec* checkpoint_spec = nullptr;  ///< Its metric of the best is watched. nullptr: none is.
  storage::S3Options weights_s3;                         ///< S3 settings for training.model.weights.
  checkpoint::StartPatience start_patience{};            ///< For the storage of the weights.
  Module& module;
  ModuleReplicas* replicas = nullptr;   ///< They share this rank's batches; nullptr: `module` has none.
  const Dataset* train_data = nullptr;  ///< nullptr: the training set is `train_streams`.
  data::Sampling sampling;              ///< Of `train_data`.
  const IterableDataset* train_streams = nullptr;
  const Dataset* validation_data = nullptr;  ///< nullptr: no validation.
  std::vector<OptimizerTurn>& turns;
  dist::Group& group;
  rank::RankLink& link;
  strategy::WaitForWork wait;
  /// The steps that are queued on `device`. nullptr: the host waits for each step's collectives, as on the CPU.
  dist::StepsInFlight* in_flight = nullptr;
  checkpoint::Checkpointer* checkpointer = nullptr;  ///< nullptr: nothing is saved.
  SnapshotTaker* snapshots = nullptr;                ///< nullptr: none are made on this rank. Needs a checkpointer.
  LogFiles* log_files = nullptr;                     ///< nullptr: none are written on this rank.
  Tracer* tracer = nullptr;                          ///< nullptr: no trace is recorded.
  std::optional<SampleRecord> sample_record;
  /// Called once, when the device has done the first step of this attempt. May be empty.
  std::function<void()> after_first_step;
  const ProcessSets* process_sets = nullptr;  ///< nullptr: the module has none.
  torch::Device device = torch::kCPU;
  std::string node;  ///< Names this rank's node in the log.
  const Clock& clock;
};

/// One rank's part of a training run. The trainers of all ranks make the same decisions after the same steps. Used from
/// one thread.
class Trainer final : private SavedTraining {
 public:
  explicit Trainer(TrainerParts parts);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains from the newest checkpoint to the end of the schedule, and returns how the rank ends: Completed,
  /// AlreadyComplete, Preempted, or a failure. After a loss that is not finite training goes on, as in PyTorch, unless
  /// the job's onNonFiniteLoss says otherwise, but until the training's end no checkpoint is saved while the loss of
  /// any rank is not finite. Throws what the module throws, and InvalidJob for a metric that no validation has.
  [[nodiscard]] rank::RankEnd run();

 private:
  [[nodiscard]] rank::RankEnd train();
  [[nodiscard]] OrEnd<void> begin();
  /// Adds the model, the optimizers and the random generators to what is saved.
  void add_model_to_state();
  /// True when any rank was asked to stop.
  [[nodiscard]] OrEnd<bool> is_stop_asked() {
    agreement_.begin(own_flags());
    const auto flags = agreement_.finish();
    if (!flags) return lost(Stage::step, flags.error());
    return flags->is_stop_asked;
  }
  [[nodiscard]] OrEnd<bool> restore();
  [[nodiscard]] OrEnd<void> load_weights(bool has_resumed);
  [[nodiscard]] std::unique_ptr<StepBatches> open_batches();
  [[nodiscard]] OrEnd<StepFlags> take_step();
  [[nodiscard]] Result<torch::Tensor> train_on_batches();
  [[nodiscard]] Result<void> finish_gradients() {
    const ProgramCall of_step{" in step ", position_.step + 1};
    return step_.finish_gradients();
  }
  [[nodiscard]] Result<void> update() {
    const ProgramCall of_step{" in step ", position_.step + 1};
    return step_.update();
  }
  [[nodiscard]] OrEnd<void> after_step(const StepFlags& flags);
  [[nodiscard]] OrEnd<void> finish();
  /// The parameters' checksum, which must be that of all ranks.
  [[nodiscard]] OrEnd<std::uint64_t> check_parameters() {
    if (const auto settled = settle(); !settled) return tl::unexpected(settled.error());
    const NamedTensors parameters = named_parameters(parts_.module);
    if (!keep_parameters_equal(parts_.turns)) return strategy::checksum(parameters);
    Result<std::uint64_t> checksum;
    const auto read = read_parameters(
        parts_.turns, [&] { checksum = strategy::agree_on_values(parameters, *parts_.group.communicator); });
    if (!read) return lost(Stage::step, read.error());
    if (!checksum) return lost(Stage::step, checksum.error());
    return *checksum;
  }
  [[nodiscard]] OrEnd<void> log_steps();
  [[nodiscard]] OrEnd<void> log_epoch();
  [[nodiscard]] OrEnd<bool> validate();
  [[nodiscard]] Result<bool> run_validation() {
    const ProgramCall of_validation{" of the validation after step ", position_.step};
    return validation_.run(evaluation_rounds());
  }
  [[nodiscard]] EvaluationRounds evaluation_rounds();
  [[nodiscard]] OrEnd<void> catch_up_on_validation();
  void set_lr();
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] rank::RankEnd preempted() const {
    const bool is_saved = checkpoints_ && checkpoints_->last() && checkpoints_->last()->step == position_.step;
    return train::preempted({.step = position_.step,
                             .has_trained = last_loss_.defined(),
                             .is_saving = checkpoints_.has_value(),
                             .saved_as = is_saved ? checkpoints_->last()->uri : std::string{}});
  }

  [[nodiscard]] StepFlags own_flags() const;
  /// Bounds how far the host is ahead of the device.
  [[nodiscard]] Result<void> end_queued_step() {
    return parts_.in_flight != nullptr ? parts_.in_flight->end_step() : Result<void>{};
  }
  [[nodiscard]] tl::unexpected<rank::RankEnd> lost(Stage stage, const Error& error) const {
    return train::lost(parts_.link, stage, error);
  }
  [[nodiscard]] bool is_rank0() const { return parts_.group.rank == 0; }
  [[nodiscard]] ResumeOptions resume_options() const {
    return {.sampling = parts_.sampling,
            .streams = parts_.train_streams,
            .world_size = parts_.group.world_size,
            .is_rank0 = is_rank0()};
  }

  [[nodiscard]] const Position& position() const override { return position_; }
  [[nodiscard]] OrEnd<void> settle() override {
    if (parts_.in_flight == nullptr) return {};
    if (auto done = parts_.in_flight->finish(); !done) return lost(Stage::step, done.error());
    return {};
  }
  [[nodiscard]] OrEnd<void> hold_parameters() override {
    if (const auto held = train::hold_parameters(parts_.turns); !held) return lost(Stage::step, held.error());
    return {};
  }
  [[nodiscard]] const checkpoint::State& current_state() override;
  [[nodiscard]] bool is_sound() const override;
  void take_snapshot() override {
    if (parts_.snapshots != nullptr) parts_.snapshots->take(Schedule::epoch_of(position_));
  }
  void pause() override { log_.pause(); }
  void resume() override {
    report("Training");
    log_.resume();
  }
  void report(std::string_view phase) override;
  void update_progress();
  /// How many samples the whole job still has to train on, if each epoch to come is as this one.
  [[nodiscard]] std::optional<std::int64_t> samples_left() const {
    const auto left = schedule_.samples_left(position_);
    if (parts_.train_streams != nullptr) return left;
    const std::int64_t places = schedule_.epoch_samples();
    const double share =
        static_cast<double>(data::samples_in(parts_.sampling, 0, places)) / static_cast<double>(places);
    return std::llround(static_cast<double>(left.value()) * share);
  }
  [[nodiscard]] const rank::RankProgress& reported() const override { return progress_; }

  TrainerParts parts_;
  Schedule schedule_;
  Position position_;
  bool is_position_known_ = false;  // false until the checkpoint to resume from is known
  RankContext context_;
  StepAgreement agreement_;
  TrainingLog log_;
  OptimizationStep step_;
  RandomState random_;
  checkpoint::State state_;
  std::optional<CheckpointDriver> checkpoints_;  // nothing: nothing is saved
  std::optional<Ema> ema_;
  Callbacks callbacks_;
  Validation validation_;
  std::int64_t validated_step_ = -1;
  Instant reported_at_;                    // when the last report was sent
  torch::Tensor last_loss_;                // of this rank's last step, on its device: the sum over its batches
  std::int64_t batches_with_samples_ = 0;  // of this rank's last step
  std::vector<torch::Tensor> step_ids_;    // of each batch of the step; only for the record of samples
  rank::RankProgress progress_;
  std::unique_ptr<StepBatches> batches_;  // nothing before the first position is known
};

}  // namespace trainyard::train
