#include "worker/train/module.hpp"

#include <torch/types.h>

#include <stdexcept>
#include <utility>

#include "worker/data/open_data.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/single_rank.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard {

torch::Tensor Module::training_step_end(StepOutput output) {
  return std::move(output.loss);
}

void Module::validation_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) {}

std::unique_ptr<Optimizer> Module::configure_optimizers(const api::OptimizerSpec& spec) {
  return train::make_optimizer(spec, train::named_parameters(*this));
}

Result<std::unique_ptr<Dataset>> Module::train_dataset(const DataSource& source) {
  return data::open_data(source, data::Part::train);
}

Result<std::unique_ptr<Dataset>> Module::validation_dataset(const DataSource& source) {
  return data::open_data(source, data::Part::validation);
}

Result<dist::Group> Module::form_group(const rank::GroupEnvironment& environment, rank::RankLink& link,
                                       const dist::GroupOptions& options) {
  return dist::form_group(environment, link, options);
}

std::unique_ptr<strategy::GradientSync> Module::configure_gradient_sync(dist::Group& group,
                                                                        strategy::WaitForWork wait) {
  if (group.world_size == 1) return std::make_unique<strategy::SingleRank>(parameters());
  return std::make_unique<strategy::Ddp>(train::named_parameters(*this), train::named_buffers(*this),
                                         group.process_group, *group.communicator, std::move(wait));
}

void Module::log(std::string_view name, const torch::Tensor& value, const LogOptions& options) {
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
