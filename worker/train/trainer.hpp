#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/training_spec.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/data/dataset.hpp"
#include "worker/dist/group.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/observe/speed_meter.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/best_metric.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/lost.hpp"
#include "worker/train/module.hpp"
#include "worker/train/optimizer.hpp"
#include "worker/train/sample_record.hpp"
#include "worker/train/saver.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/snapshot_taker.hpp"
#include "worker/train/step_agreement.hpp"
#include "worker/train/training_state.hpp"

namespace trainyard::train {

/// What a run is made of. References outlive the trainer.
struct TrainerParts {
  const api::TrainingSpec& training;
  api::Every checkpoint_every;
  api::Every copies_every;  ///< Of copies on the nodes. Nothing set: none but with checkpoints.
  api::WhenBusy when_busy = api::WhenBusy::skip;
  /// Given: a checkpoint is due after each validation in which this metric is better than in all before.
  std::optional<api::KeepBestSpec> save_at_best;
  storage::S3Options weights_s3;               ///< How training.model.weights is reached.
  checkpoint::StartPatience start_patience{};  ///< With the storage of the weights.
  Module& module;
  const Dataset& train_data;
  const Dataset* validation_data = nullptr;  ///< nullptr: no validation.
  Optimizer& optimizer;
  strategy::GradientSync& gradients;
  dist::Group& group;
  rank::RankLink& link;
  strategy::WaitForWork wait;
  checkpoint::Checkpointer* checkpointer = nullptr;  ///< nullptr: nothing is saved.
  SnapshotTaker* snapshots = nullptr;  ///< nullptr: none are made, or another rank's. Needs a checkpointer.
  std::optional<SampleRecord> sample_record;
  torch::Device device = torch::kCPU;
  const Clock& clock;
};

/// One rank's part of a training run. All ranks' trainers do the same at the same steps. Used from one thread.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  /// Trains from the newest checkpoint to the end of the schedule, and says how the rank ends: Completed,
  /// AlreadyComplete, Preempted, or what went wrong. A loss that is not finite is reported and trained on, as PyTorch
  /// does, but nothing is saved before the training's end while some rank's is so. Throws what the module throws.
  [[nodiscard]] rank::RankEnd run();

 private:
  [[nodiscard]] rank::RankEnd train();
  [[nodiscard]] OrEnd<void> begin();
  [[nodiscard]] OrEnd<bool> is_stop_asked();
  [[nodiscard]] OrEnd<bool> resume();
  [[nodiscard]] OrEnd<void> load_weights(bool has_resumed);
  [[nodiscard]] OrEnd<StepFlags> take_step();
  [[nodiscard]] OrEnd<void> after_step(const StepFlags& flags);
  [[nodiscard]] OrEnd<void> finish();
  [[nodiscard]] OrEnd<void> log_steps();
  [[nodiscard]] OrEnd<void> log_epoch();
  [[nodiscard]] OrEnd<bool> validate();
  [[nodiscard]] OrEnd<void> maybe_checkpoint(const StepFlags& flags);
  [[nodiscard]] OrEnd<void> save_and_wait(bool is_complete);
  [[nodiscard]] OrEnd<void> wait_for_save();
  void begin_save(const Saver::Options& options);
  void end_checkpoints(const rank::RankEnd& ended);
  [[nodiscard]] rank::RankEnd preempted() const;

  [[nodiscard]] StepFlags own_flags() const;
  [[nodiscard]] tl::unexpected<rank::RankEnd> lost(Stage stage, const Error& error) const {
    return train::lost(parts_.link, stage, error);
  }
  void report(std::string_view phase);
  void show(const observe::MetricValues& values, snapshot::Over over) {
    if (parts_.snapshots != nullptr) parts_.snapshots->add(values, over);
  }
  void take_snapshot() {
    if (parts_.snapshots != nullptr) parts_.snapshots->take(Schedule::epoch_of(position_));
  }
  [[nodiscard]] bool is_rank0() const { return parts_.group.rank == 0; }

  TrainerParts parts_;
  Schedule schedule_;
  Position position_;
  bool is_position_known_ = false;  // False until it is known where training begins or goes on.
  torch::Tensor order_;             // of the epoch at order_epoch_
  std::int64_t order_epoch_ = -1;
  StepAgreement agreement_;
  RandomState random_;
  checkpoint::State state_;
  std::optional<Saver> saver_;  // nothing: nothing is saved
  observe::TrainingMetrics metrics_;
  observe::MetricValues validation_;  // the last
  std::int64_t validated_step_ = -1;
  std::optional<BestValue> best_;  // of all validations
  bool is_best_ = false;           // the last one was that, and this was not acted upon yet
  bool is_from_copies_ = false;    // this attempt goes on from what the remote store does not have
  observe::SpeedMeter speed_;
  bool is_postponed_ = false;  // a checkpoint is due that copies are in the way of
  Instant saved_;              // when the last checkpoint was begun, or training
  Instant copied_;             // when the last save of any kind was
  Instant reported_;           // to the launcher
  bool is_first_step_ = true;
  bool is_loss_finite_ = true;
  torch::Tensor last_loss_;  // of this rank, on its device
  rank::RankProgress progress_;
};

}  // namespace trainyard::train
