#include "worker/train/streamed_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

Batch no_samples() {
  Batch batch;
  batch.ids = torch::empty({0}, torch::kInt64);
  return batch;
}

}  // namespace

SharedStep share_step(std::span<const BatchOfRanks> batches, std::int64_t world_size, bool joins) {
  SharedStep step{.ended_ranks = batches.empty() ? world_size : world_size - batches.front().ranks};
  for (const BatchOfRanks& batch : batches) {
    const bool is_used = joins ? batch.ranks > 0 : batch.ranks == world_size;
    step.batches += is_used ? 1 : 0;
    (is_used ? step.samples : step.unused_samples) += batch.samples;
  }
  return step;
}

std::int64_t stream_samples(std::int64_t samples, const data::GroupRank& self) {
  return (samples - self.rank + self.world_size - 1) / self.world_size;
}

StreamedBatches::StreamedBatches(StreamedBatchesParts parts)
    : parts_{std::move(parts)}, message_{torch::zeros({parts_.training.accumulate_grad_batches, 2}, torch::kInt64)} {}

Result<std::int64_t> StreamedBatches::begin_step(const Position& position) {
  if (loader_ != nullptr) return step_.batches;
  open(position);
  look_ahead();
  TRY(agree());
  if (step_.batches > 0) return step_.batches;
  if (position.samples > 0) {
    throw InvalidJob{fmt::format(
        "the checkpoint is {} samples into epoch {}, where {} of the {} ranks' streams have no more: give the samples "
        "that there were, or set checkpoint.resume to none to train afresh",
        position.samples, position.epoch, step_.ended_ranks, parts_.place.self.world_size)};
  }
  throw InvalidJob{fmt::format("the streams of {} of the {} ranks have no samples in epoch {}: {}", step_.ended_ranks,
                               parts_.place.self.world_size, position.epoch,
                               parts_.training.strategy.join
                                   ? "at least one rank needs some"
                                   : "each rank needs at least one, unless training.strategy.join is true")};
}

Batch StreamedBatches::next() {
  if (read_.empty()) return no_samples().on(parts_.place.device);
  const Batch batch = std::move(read_.front());
  read_.pop_front();
  return batch.on(parts_.place.device);
}

void StreamedBatches::look_ahead() {
  const ProgramCall call{"reading a batch"};
  const auto wanted = static_cast<std::size_t>(parts_.training.accumulate_grad_batches);
  while (read_.size() < wanted) {
    Batch batch = loader_->next();
    if (batch.size() == 0) break;
    read_.push_back(std::move(batch));
  }
  message_.zero_();
  for (std::size_t index = 0; index < read_.size(); ++index) {
    auto* row = message_.data_ptr<std::int64_t>() + 2 * index;
    row[0] = 1;
    row[1] = read_[index].size();
  }
  if (parts_.place.self.world_size == 1) return;
  try {
    std::vector<torch::Tensor> message{message_};
    under_way_ = parts_.process_group->allreduce(message);
  } catch (const std::exception& error) {
    send_error_ = error.what();  // agree() returns it.
  }
}

Result<StepEnd> StreamedBatches::finish_step(const Position& position) {
  const SharedStep made = step_;
  TRY(agree());
  if (step_.batches == 0) {
    if (parts_.place.self.rank == 0) log_epoch_end(position);
    read_.clear();
    loader_.reset();
    return StepEnd{.position = {.step = position.step + 1, .epoch = position.epoch + 1, .samples = 0},
                   .samples = made.samples};
  }
  const std::int64_t places = made.batches * parts_.training.batch_size * parts_.place.self.world_size;
  return StepEnd{.position = {.step = position.step + 1, .epoch = position.epoch, .samples = position.samples + places},
                 .samples = made.samples};
}

void StreamedBatches::open(const Position& position) {
  {
    const ProgramCall call{"stream() of the training set"};
    auto stream = parts_.data.stream(position.epoch);
    if (stream == nullptr)
      throw InvalidJob{fmt::format("stream() of the training set gave no stream for epoch {}", position.epoch)};
    const data::BatchLoaderOptions options{.threads = stream_threads(parts_.training.data, parts_.data),
                                           .device = parts_.place.device,
                                           .classes = parts_.data.classes()};
    loader_ = std::make_unique<data::StreamLoader>(std::move(stream), parts_.training.batch_size, options);
  }
  const ProgramCall call{"passing over the samples of the training stream that were trained on before"};
  loader_->skip(stream_samples(position.samples, parts_.place.self), parts_.beat);
}

Result<void> StreamedBatches::agree() {
  if (!send_error_.empty())
    return fail(ErrorKind::unavailable, fmt::format("sending how many batches there are: {}", send_error_));
  if (under_way_) {
    TRY(parts_.wait(under_way_, "the agreement on the next batches"));
    under_way_.reset();
  }
  std::vector<BatchOfRanks> batches;
  for (std::int64_t index = 0; index < message_.size(0); ++index) {
    const auto* row = message_.const_data_ptr<std::int64_t>() + 2 * index;
    batches.push_back({.ranks = row[0], .samples = row[1]});
  }
  step_ = share_step(batches, parts_.place.self.world_size, parts_.training.strategy.join);
  return {};
}

void StreamedBatches::log_epoch_end(const Position& position) const {
  if (step_.ended_ranks == parts_.place.self.world_size) return;
  logging::info(
      "an epoch ends with the shortest stream: the other ranks have samples left, of which they have read some",
      {{"epoch", position.epoch + 1},
       {"endedRanks", step_.ended_ranks},
       {"worldSize", parts_.place.self.world_size},
       {"unusedSamples", step_.unused_samples}});
}

std::int64_t stream_threads(const api::DataSpec& spec, const IterableDataset& data) {
  if (spec.loader_threads) return std::min<std::int64_t>(*spec.loader_threads, 1);
  return data.reads_ahead() ? 1 : 0;
}

Result<void> check_steps_are_known(const api::TrainingSpec& training) {
  const api::LrScheduleName name = training.lr_schedule.name;
  const bool is_linear = name == api::LrScheduleName::linear;
  if (training.max_steps || !(is_linear || name == api::LrScheduleName::cosine)) return {};
  return fail(ErrorKind::invalid,
              fmt::format("training.lrSchedule.name {} needs the number of the last step, which a training set without "
                          "a size does not tell: set training.maxSteps",
                          is_linear ? "linear" : "cosine"));
}

}  // namespace trainyard::train
