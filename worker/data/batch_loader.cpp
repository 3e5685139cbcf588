#include "worker/data/batch_loader.hpp"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard::data {
namespace {

void check_rows(const Batch& batch, std::string_view giver) {
  if (!batch.inputs.defined()) return;
  const std::int64_t rows = batch.inputs.dim() == 0 ? 0 : batch.inputs.size(0);
  if (rows == batch.size()) return;
  throw InvalidJob{fmt::format("{} gave inputs of {} rows for {} samples: the first dimension of inputs is the batch",
                               giver, rows, batch.size())};
}

/// A loss says of such a target neither the sample nor the classes, and on a GPU it leaves the device unusable. Targets
/// below 0 are those that losses leave out, such as cross_entropy's ignore_index. Targets of more than one number a
/// sample are not looked at: a mask may mark void pixels by 255, and a row may hold more than a class.
void check_targets(const Batch& batch, std::int64_t classes) {
  const torch::Tensor& targets = batch.targets;
  const bool are_classes = classes > 0 && targets.defined() && targets.is_cpu() && targets.dim() == 1 &&
                           targets.size(0) == batch.size() && targets.numel() > 0 &&
                           c10::isIntegralType(targets.scalar_type(), /*includeBool=*/false);
  if (!are_classes) return;
  const torch::Tensor numbers = targets.to(torch::kLong);
  const auto row = numbers.argmax().item<std::int64_t>();
  const auto target = numbers[row].item<std::int64_t>();
  if (target < classes) return;
  throw InvalidJob{fmt::format(
      "sample {} of the data set has the target {}, but the data set says that it has {} classes (0 to {}): look at "
      "the labels, and at what its classes() returns",
      batch.ids[row].item<std::int64_t>(), target, classes, classes - 1)};
}

/// The copy to the device then waits for nothing.
torch::Tensor pinned(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() ? tensor.pin_memory() : tensor;
}

Batch load(const BatchLoader::Gather& gather, const BatchRequest& request, const BatchLoaderOptions& options) {
  const torch::Device device = options.device;
  // A new thread's device is number 0, where CUDA would make a context: half a gigabyte for each rank of the node.
  const c10::OptionalDeviceGuard guard{device.is_cpu() ? std::nullopt : std::optional{device}};
  const torch::NoGradGuard no_grad;  // A new thread records gradients, whatever the training thread does.
  Batch batch = gather(request);
  batch.ids = request.ids;  // The data set's own word on them is not needed.
  return prepared(std::move(batch), "the data set's gather()", options);
}

}  // namespace

Batch prepared(Batch batch, std::string_view giver, const BatchLoaderOptions& options) {
  check_rows(batch, giver);
  check_targets(batch, options.classes);
  if (options.device.is_cpu()) return batch;
  return {.inputs = pinned(batch.inputs),
          .targets = pinned(batch.targets),
          .ids = batch.ids,
          .named = batch.named.map(pinned)};
}

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
  return load(gather_, *request, options_).on(options_.device);
}

void BatchLoader::read_ahead() {
  while (tasks_->size() <= static_cast<std::size_t>(options_.threads)) {
    auto request = requests_();
    if (!request) return;
    tasks_->add([this, request = *std::move(request)] { return load(gather_, request, options_); });
  }
}

}  // namespace trainyard::data
