#include "include/trainyard/module.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"
#include "worker/train/rank_context.hpp"

namespace trainyard {

torch::Tensor Module::training_step_end(StepOutput output) {
  return std::move(output.loss);
}

StepOutput Module::validation_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) {
  return {};
}

void Module::validation_step_end(StepOutput /*output*/) {}

StepOutput Module::test_step(const Batch& batch, std::int64_t batch_index) {
  return validation_step(batch, batch_index);
}

void Module::test_step_end(StepOutput output) {
  validation_step_end(std::move(output));
}

std::map<std::string, torch::Tensor> Module::predict_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) {
  throw InvalidJob{"training.task is predict, and the model has no predict_step that says what it predicts"};
}

std::unique_ptr<Optimizer> Module::configure_optimizers(const OptimizerSpec& spec) {
  return train::make_optimizer(spec, train::named_parameters(*this));
}

std::vector<NamedOptimizer> Module::configure_named_optimizers(const OptimizerSpec& /*spec*/) {
  return {};
}

void Module::configure_ddp(DdpSettings& /*settings*/) {}

std::shared_ptr<c10d::CommHookInterface> Module::configure_comm_hook(
    const c10::intrusive_ptr<c10d::ProcessGroup>& /*process_group*/) {
  return nullptr;
}

std::map<std::string, std::vector<std::int64_t>> Module::configure_process_sets(std::int64_t /*world_size*/) {
  return {};
}

std::vector<std::shared_ptr<Callback>> Module::configure_callbacks() {
  return {};
}

std::optional<Datasets> Module::open_datasets(const DataSource& /*source*/) {
  return std::nullopt;
}

std::int64_t Module::global_step() const {
  return rank_context().global_step();
}

std::int64_t Module::current_epoch() const {
  return rank_context().current_epoch();
}

double Module::learning_rate() const {
  return rank_context().learning_rate();
}

std::int64_t Module::rank() const {
  return rank_context().rank();
}

std::int64_t Module::world_size() const {
  return rank_context().world_size();
}

torch::Device Module::device() const {
  return rank_context().device();
}

torch::Tensor Module::all_gather(const torch::Tensor& tensor) const {
  return all_gather(TensorTree{tensor}).tensor();
}

TensorTree Module::all_gather(const TensorTree& tree) const {
  std::vector<torch::Tensor> tensors;
  (void)tree.map([&](const torch::Tensor& tensor) {
    tensors.push_back(tensor);
    return tensor;
  });
  const std::vector<torch::Tensor> stacked = rank_context().all_gather(tensors);
  return tree.map([&, next = std::size_t{0}](const torch::Tensor&) mutable { return stacked[next++]; });
}

const ProcessSet& Module::process_set(std::string_view name) const {
  return rank_context().process_set(name);
}

train::RankContext& Module::rank_context() const {
  if (rank_context_ == nullptr) {
    throw std::logic_error{
        "global_step(), current_epoch(), rank(), world_size(), device(), all_gather() and process_set() were asked for "
        "before the training had begun: call them in the steps, not in the constructor"};
  }
  return *rank_context_;
}

void Module::log(std::string_view name, const torch::Tensor& value, const LogOptions& options) {
  if (const auto named = observe::check_name(name); !named)
    throw std::invalid_argument{"log: " + named.error().message};
  if (!value.defined() || value.numel() != 1) {
    throw std::invalid_argument{
        fmt::format("log(\"{}\"): a metric is a scalar, and this one is {}", name, observe::describe(value))};
  }
  if (metric_sink_ != nullptr) metric_sink_->log(name, value.detach(), options);
}

void Module::log(std::string_view name, double value, const LogOptions& options) {
  log(name, torch::scalar_tensor(value, torch::kDouble), options);
}

void Module::log_image(std::string_view name, const torch::Tensor& image) {
  if (const auto checked = observe::check_image(name, image); !checked)
    throw std::invalid_argument{checked.error().message};
  if (image_sink_ != nullptr) image_sink_->log_image(name, image.detach());
}

}  // namespace trainyard
