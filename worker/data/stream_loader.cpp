#include "worker/data/stream_loader.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard::data {
namespace {

constexpr std::string_view stream_next = "next() of the training stream";

/// How many samples `batch` has, which has no numbers.
std::int64_t rows_of(const Batch& batch) {
  for (const torch::Tensor& tensor : {batch.inputs, batch.targets}) {
    if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  }
  if (!batch.inputs.defined() && !batch.targets.defined() && batch.named.size() == 0) return 0;
  throw InvalidJob{fmt::format(
      "{} gave a batch whose samples cannot be counted: it needs ids, or inputs whose first dimension is the batch",
      stream_next)};
}

void check_ids(const torch::Tensor& ids) {
  if (ids.dim() == 1 && ids.scalar_type() == torch::kInt64 && ids.device().is_cpu()) return;
  throw InvalidJob{fmt::format("{} gave ids of type {} with {} dimensions on {}: they must be int64 [B] on the CPU",
                               stream_next, c10::toString(ids.scalar_type()), ids.dim(), ids.device().str())};
}

}  // namespace

StreamLoader::StreamLoader(std::unique_ptr<SampleStream> stream, std::int64_t batch_size,
                           const BatchLoaderOptions& options)
    : stream_{std::move(stream)}, batch_size_{batch_size}, options_{options} {
  check(options_.threads <= 1, "one thread reads a stream");
  if (options_.threads > 0) tasks_.emplace(1);
}

void StreamLoader::skip(std::int64_t samples, const std::function<void()>& beat) {
  if (samples == 0) return;
  if (stream_->skip(samples)) {
    taken_ += samples;
    return;
  }
  while (taken_ < samples && !is_over_) {
    (void)read(std::min(batch_size_, samples - taken_));
    beat();
  }
}

Batch StreamLoader::next() {
  if (!tasks_) return read(batch_size_);
  while (tasks_->size() < 2) tasks_->add([this] { return read(batch_size_); });
  return tasks_->take();
}

Batch StreamLoader::read(std::int64_t count) {
  // As for BatchLoader, a new thread has neither the rank's device nor the training thread's mode.
  const c10::OptionalDeviceGuard guard{options_.device.is_cpu() ? std::nullopt : std::optional{options_.device}};
  const torch::NoGradGuard no_grad;
  Batch batch = is_over_ ? Batch{} : stream_->next(count);
  if (!batch.ids.defined()) batch.ids = torch::arange(taken_, taken_ + rows_of(batch), torch::kInt64);
  check_ids(batch.ids);
  if (batch.size() > count) {
    throw InvalidJob{
        fmt::format("{} gave {} samples where {} were asked for: it may give fewer at the end of an epoch, never more",
                    stream_next, batch.size(), count)};
  }
  taken_ += batch.size();
  is_over_ = batch.size() < count;
  return prepared(std::move(batch), stream_next, options_);
}

}  // namespace trainyard::data
