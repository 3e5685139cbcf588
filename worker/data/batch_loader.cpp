#include "worker/data/batch_loader.hpp"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard::data {
namespace {

void check_rows(const Batch& batch) {
  if (!batch.inputs.defined()) return;
  const std::int64_t rows = batch.inputs.dim() == 0 ? 0 : batch.inputs.size(0);
  if (rows == batch.size()) return;
  throw InvalidJob{fmt::format(
      "the data set's gather() gave inputs of {} rows for {} samples: the first dimension of inputs is the batch", rows,
      batch.size())};
}

/// The copy to the device then waits for nothing.
torch::Tensor pinned(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() ? tensor.pin_memory() : tensor;
}

Batch load(const BatchLoader::Gather& gather, const BatchRequest& request, torch::Device device) {
  // A new thread's device is number 0, where CUDA would make a context: half a gigabyte for each rank of the node.
  const c10::OptionalDeviceGuard guard{device.is_cpu() ? std::nullopt : std::optional{device}};
  const torch::NoGradGuard no_grad;  // A new thread records gradients, whatever the training thread does.
  Batch batch = gather(request);
  batch.ids = request.ids;  // The data set's own word on them is not needed.
  check_rows(batch);
  if (device.is_cpu()) return batch;
  return {.inputs = pinned(batch.inputs),
          .targets = pinned(batch.targets),
          .ids = batch.ids,
          .named = batch.named.map(pinned)};
}

}  // namespace

BatchLoader::BatchLoader(Requests requests, Gather gather, const BatchLoaderOptions& options)
    : requests_{std::move(requests)}, gather_{std::move(gather)}, options_{options} {
  if (options_.threads > 0) tasks_.emplace(static_cast<std::size_t>(options_.threads));
}

Batch BatchLoader::next() {
  if (tasks_) {
    read_ahead();
    return tasks_->take().on(options_.device);
  }
  const auto request = requests_();
  check(request.has_value(), "there is another batch");
  return load(gather_, *request, options_.device).on(options_.device);
}

void BatchLoader::read_ahead() {
  while (tasks_->size() <= static_cast<std::size_t>(options_.threads)) {
    auto request = requests_();
    if (!request) return;
    tasks_->add([this, request = *std::move(request)] { return load(gather_, request, options_.device); });
  }
}

}  // namespace trainyard::data
