#include "worker/train/batch_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "include/trainyard/options.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {

std::optional<data::BatchRequest> BatchSequence::next() {
  if (schedule_.is_finished(step_)) return std::nullopt;
  if (order_epoch_ != step_.epoch) {
    order_ = data::order_of(options_.sampling, step_.epoch, options_.self);
    order_epoch_ = step_.epoch;
  }
  data::BatchRequest request{.ids = data::batch_samples(options_.sampling, order_, schedule_.batch_begin(step_, batch_),
                                                        options_.batch_size, options_.self),
                             .epoch = step_.epoch};
  if (++batch_ == schedule_.batches(step_)) {
    step_ = schedule_.next(step_);
    batch_ = 0;
  }
  return request;
}

data::Sampling make_sampling(const api::TrainingSpec& training, const Dataset& dataset, const Sampler* sampler,
                             std::vector<std::int64_t> order_sizes) {
  return {.dataset_samples = dataset.size(),
          .sampler = sampler,
          .is_shared = training.data.replace_sampler,
          .seed = training.seed,
          .order_sizes = std::move(order_sizes)};
}

std::unique_ptr<data::BatchLoader> open_batches(const Schedule& schedule, const Position& begin, const Dataset& dataset,
                                                const data::Sampling& sampling, const api::TrainingSpec& training,
                                                const BatchPlace& place) {
  if (const std::int64_t samples = dataset.size(); samples != sampling.dataset_samples) {
    throw InvalidJob{fmt::format("size() of the training set was {} and is {} now: it must return one number always",
                                 sampling.dataset_samples, samples)};
  }
  BatchSequence sequence{
      schedule, begin, {.sampling = sampling, .batch_size = training.batch_size, .self = place.self}};
  return std::make_unique<data::BatchLoader>(
      [sequence = std::move(sequence)]() mutable { return sequence.next(); },
      [&dataset](const data::BatchRequest& request) {
        return request.ids.numel() == 0 ? Batch{} : dataset.gather_in_epoch(request.ids, request.epoch);
      },
      data::BatchLoaderOptions{
          .threads = loader_threads(training.data, dataset), .device = place.device, .classes = dataset.classes()});
}

Batch next_batch(data::BatchLoader& batches) {
  const ProgramCall call{"reading a batch"};
  return batches.next();
}

std::int64_t loader_threads(const api::DataSpec& spec, const Dataset& dataset) {
  const std::int64_t own = dataset.loader_threads();
  if (!spec.loader_threads) return own;
  return own > 0 ? *spec.loader_threads : std::min<std::int64_t>(*spec.loader_threads, 1);
}

}  // namespace trainyard::train
