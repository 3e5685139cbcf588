#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "api/training_spec.hpp"
#include "checkpoint/group/communicator.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/data/sampling.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/observe/step_times.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/log_files.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/snapshot_taker.hpp"

namespace trainyard::train {

/// References and pointers outlive the log.
struct TrainingLogParts {
  Module& module;  ///< Its log() and log_image() come here.
  checkpoint::Communicator& communicator;
  SnapshotTaker* snapshots = nullptr;  ///< nullptr: none are made on this rank.
  LogFiles* log_files = nullptr;       ///< nullptr: none are written on this rank.
  std::string node;                    ///< Names this rank's node.
  const Clock& clock;
};

/// Collects the metrics and times of the steps, reduces them over the ranks, and shows them in rank 0's log, in log
/// files and in snapshots. Used from the training thread.
class TrainingLog {
 public:
  explicit TrainingLog(const TrainingLogParts& parts);
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  /// The steps begin: speed is measured from now on.
  void begin() { speed_ = observe::SpeedMeter{parts_.clock.instant()}; }
  /// The values and images that follow belong to `step`, from 1.
  void set_step(std::int64_t step);
  /// Adds `samples` that the whole job has trained on.
  void add_samples(std::int64_t samples) { speed_.add(samples); }
  /// Adds the metric "lr" of the step that is done.
  void log_learning_rate(double learning_rate);
  /// No steps are made between the two.
  void pause() { speed_.pause(parts_.clock.instant()); }
  void resume() { speed_.resume(parts_.clock.instant()); }

  /// Reduces and shows what the steps since the last line have logged. `progress` has `position` already; its loss
  /// and speed are set here. `samples_left`: of the whole training, if that is known. Collective; waits for the device.
  /// Errors: the group's.
  [[nodiscard]] Result<void> show_steps(rank::RankProgress& progress, const Position& position,
                                        std::optional<std::int64_t> samples_left);
  /// Reduces and shows the values of the epoch in which `position` is. Collective; waits for the device.
  [[nodiscard]] Result<void> show_epoch(const Position& position);
  void show_validation(const Position& position, const observe::MetricValues& values);

  [[nodiscard]] observe::TrainingMetrics& metrics() { return metrics_; }
  [[nodiscard]] observe::StepTimer& timer() { return timer_; }
  /// True until the first line of this attempt is shown.
  [[nodiscard]] bool is_first_line() const { return is_first_line_; }

 private:
  [[nodiscard]] bool is_rank0() const { return parts_.communicator.rank() == 0; }
  /// `times` are shown in log files only.
  void show(const observe::MetricValues& values, snapshot::Over over, std::int64_t epoch,
            observe::MetricValues times = {});

  TrainingLogParts parts_;
  observe::ImageSinks image_sinks_;
  observe::TrainingMetrics metrics_;
  observe::StepTimer timer_;
  observe::SpeedMeter speed_;
  bool is_first_line_ = true;
  bool is_loss_finite_ = true;  // of the last line
};

/// The ranks, devices and replicas that compute a job's batches.
struct Computers {
  std::int64_t world_size = 1;
  torch::Device device = torch::kCPU;  ///< This rank's device.
  std::int64_t replicas = 1;           ///< Replicas of the model in this rank.
};

/// Logs what is trained, on how many ranks, and what the number of ranks means for batch and learning rate.
/// `sampling`: of the training set of `datasets`, if that has a size.
void log_beginning(const api::TrainingSpec& training, const Datasets& datasets, const data::Sampling& sampling,
                   const Computers& computers);

/// Logs that the training has reached its end, with the metrics of its last validation.
void log_complete(std::int64_t step, const observe::MetricValues& metrics, std::uint64_t exchanged_bytes,
                  std::uint64_t parameters_checksum);

}  // namespace trainyard::train
