#pragma once

#include <cstdint>
#include <memory>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/batch_loader.hpp"
#include "worker/data/sampling.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/schedule.hpp"

namespace trainyard::train {

/// The end of a step.
struct StepEnd {
  Position position;         ///< The position after the step.
  std::int64_t samples = 0;  ///< Samples of the whole job in the step.
};

/// This rank's batches of a training, step by step: begin_step(), next() for each batch, look_ahead() and
/// finish_step(). All ranks make the same calls, at the same places among the other collectives. Used from the training
/// thread.
class StepBatches {
 public:
  virtual ~StepBatches() = default;
  /// How many batches each rank trains on in the step that begins at `position`. May be collective.
  [[nodiscard]] virtual Result<std::int64_t> begin_step(const Position& position) = 0;
  /// The next batch, on the rank's device. One of no samples where ranks join and this one has none left.
  [[nodiscard]] virtual Batch next() = 0;
  /// Begins to find out whether the epoch goes on, while the optimizer makes its step. Not earlier: until its gradients
  /// are exchanged, a rank may send them during its backward pass or, where it has no samples, after that.
  virtual void look_ahead() = 0;
  /// The end of the step that began at `position`. May be collective.
  [[nodiscard]] virtual Result<StepEnd> finish_step(const Position& position) = 0;
};

/// The batches of samples that `sampling` takes from a data set.
class SampledBatches final : public StepBatches {
 public:
  /// `schedule` outlives the object. `loader`: of open_batches().
  SampledBatches(const Schedule& schedule, data::Sampling sampling, std::unique_ptr<data::BatchLoader> loader);

  [[nodiscard]] Result<std::int64_t> begin_step(const Position& position) override;
  [[nodiscard]] Batch next() override;
  void look_ahead() override {}
  [[nodiscard]] Result<StepEnd> finish_step(const Position& position) override;

 private:
  const Schedule& schedule_;
  data::Sampling sampling_;
  std::unique_ptr<data::BatchLoader> loader_;
};

/// open_batches() as the batches of steps, with the same arguments.
[[nodiscard]] std::unique_ptr<StepBatches> open_sampled_batches(const Schedule& schedule, const Position& begin,
                                                                const Dataset& dataset, const data::Sampling& sampling,
                                                                const api::TrainingSpec& training,
                                                                const BatchPlace& place);

}  // namespace trainyard::train
