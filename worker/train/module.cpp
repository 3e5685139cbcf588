#include "include/trainyard/module.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <stdexcept>
#include <utility>

#include "worker/observe/images.hpp"
#include "worker/observe/metrics.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard {

torch::Tensor Module::training_step_end(StepOutput output) {
  return std::move(output.loss);
}

void Module::validation_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) {}

std::unique_ptr<Optimizer> Module::configure_optimizers(const OptimizerSpec& spec) {
  return train::make_optimizer(spec, train::named_parameters(*this));
}

std::vector<NamedOptimizer> Module::configure_named_optimizers(const OptimizerSpec& /*spec*/) {
  return {};
}

std::optional<Datasets> Module::open_datasets(const DataSource& /*source*/) {
  return std::nullopt;
}

void Module::log(std::string_view name, const torch::Tensor& value, const LogOptions& options) {
  if (!observe::is_name(name)) {
    throw std::invalid_argument{fmt::format(
        "log: a metric's name is one line of 1 to {} bytes that begins with no blank, and this one has {} bytes",
        observe::name_bytes_max, name.size())};
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
