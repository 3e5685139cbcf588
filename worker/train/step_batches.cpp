#include "worker/train/step_batches.hpp"

#include <utility>

namespace trainyard::train {

SampledBatches::SampledBatches(const Schedule& schedule, data::Sampling sampling,
                               std::unique_ptr<data::BatchLoader> loader)
    : schedule_{schedule}, sampling_{std::move(sampling)}, loader_{std::move(loader)} {}

Result<std::int64_t> SampledBatches::begin_step(const Position& position) {
  return schedule_.batches(position);
}

Batch SampledBatches::next() {
  return next_batch(*loader_);
}

Result<StepEnd> SampledBatches::finish_step(const Position& position) {
  const Position after = schedule_.next(position);
  return StepEnd{.position = after,
                 .samples = data::samples_in(sampling_, position.samples, schedule_.end_in_epoch(after))};
}

std::unique_ptr<StepBatches> open_sampled_batches(const Schedule& schedule, const Position& begin,
                                                  const Dataset& dataset, const data::Sampling& sampling,
                                                  const api::TrainingSpec& training, const BatchPlace& place) {
  return std::make_unique<SampledBatches>(schedule, sampling,
                                          open_batches(schedule, begin, dataset, sampling, training, place));
}

}  // namespace trainyard::train
