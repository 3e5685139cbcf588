#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/sampling.hpp"
#include "worker/data/stream_loader.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/schedule.hpp"
#include "worker/train/step_batches.hpp"

namespace trainyard::train {

/// The ranks that have a batch of that number in the step, and how many samples they have in it together.
struct BatchOfRanks {
  std::int64_t ranks = 0;
  std::int64_t samples = 0;
};

/// What all ranks train on in a step, and what they have read beyond it.
struct SharedStep {
  std::int64_t batches = 0;         ///< Batches of each rank. 0: the epoch is over.
  std::int64_t samples = 0;         ///< Samples of the whole job in these batches.
  std::int64_t ended_ranks = 0;     ///< Ranks that have no batch.
  std::int64_t unused_samples = 0;  ///< Samples in batches that were read and are not trained on.
  bool operator==(const SharedStep&) const = default;
};

/// The step for which the ranks have `batches`: as long as the shortest stream has batches, or, if `joins`, the
/// longest. Pure.
[[nodiscard]] SharedStep share_step(std::span<const BatchOfRanks> batches, std::int64_t world_size, bool joins);

/// How many samples of its stream a rank has had where an epoch has come to `samples` samples of the whole job. Pure.
[[nodiscard]] std::int64_t stream_samples(std::int64_t samples, const data::GroupRank& self);

/// References outlive the batches.
struct StreamedBatchesParts {
  const IterableDataset& data;
  const api::TrainingSpec& training;
  BatchPlace place;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  strategy::WaitForWork wait;
  std::function<void()> beat;  ///< Shows that the rank is alive.
};

/// The batches of the ranks' own streams. A rank reads the batches of the next step before the optimizer's step, and
/// the ranks agree meanwhile on how many of them all train on. Positions in an epoch are in full batches.
class StreamedBatches final : public StepBatches {
 public:
  explicit StreamedBatches(StreamedBatchesParts parts);

  /// Opens the stream of an epoch, and passes over what a training that resumes has had. Errors: those of the wait.
  /// Throws what the program throws, and InvalidJob where there is no step to make at `position`.
  [[nodiscard]] Result<std::int64_t> begin_step(const Position& position) override;
  [[nodiscard]] Batch next() override;
  /// Throws what the stream throws, and as StreamLoader::next().
  void look_ahead() override;
  /// Errors: those of the wait.
  [[nodiscard]] Result<StepEnd> finish_step(const Position& position) override;

 private:
  void open(const Position& position);
  [[nodiscard]] Result<void> agree();
  void log_epoch_end(const Position& position) const;

  StreamedBatchesParts parts_;
  std::unique_ptr<data::StreamLoader> loader_;  // nothing between epochs
  std::deque<Batch> read_;                      // of the next step, on the host
  SharedStep step_;                             // the step that is made, or comes next
  torch::Tensor message_;                       // int64 [accumulateGradBatches, 2], on the CPU: a BatchOfRanks a row
  c10::intrusive_ptr<c10d::Work> under_way_;
  std::string send_error_;
};

/// The number of threads that read `data` ahead: 0 or 1.
[[nodiscard]] std::int64_t stream_threads(const api::DataSpec& spec, const IterableDataset& data);

/// ErrorKind::invalid: `training` needs the number of its steps, which streams do not tell, and has no maxSteps.
[[nodiscard]] Result<void> check_steps_are_known(const api::TrainingSpec& training);

}  // namespace trainyard::train
