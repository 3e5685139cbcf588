#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "include/trainyard/module.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"

namespace trainyard::train {

/// A small classifier of 28x28 images with BatchNorm and, if asked for, dropout. `on_step` runs in each training step,
/// before the forward pass.
class SmallModule final : public Module {
 public:
  explicit SmallModule(double dropout = 0.0) : drop_{torch::nn::DropoutOptions(dropout)} {
    register_module("norm", norm_);
    register_module("hidden", hidden_);
    register_module("drop", drop_);
    register_module("out", out_);
    register_parameter("spare", spare);
  }

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override {
    if (on_step) on_step(batch_index);
    log("images", static_cast<double>(batch.size()), {.reduce = Reduce::sum, .on_step = false, .on_epoch = true});
    if (shows_images) log_image("inputs", batch.inputs.slice(0, 0, 4));
    return torch::cross_entropy_loss(forward(batch.inputs), batch.targets) * loss_factor + loss_offset;
  }
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override {
    if (on_validation) on_validation(batch_index);
    const torch::Tensor logits = forward(batch.inputs);
    if (shows_images && batch_index == 0) log_image("validation", batch.inputs[0]);
    log("val_loss", torch::cross_entropy_loss(logits, batch.targets));
    log("val_accuracy", logits.argmax(1).eq(batch.targets).to(torch::kDouble).mean());
    StepOutput output;
    output.values["logits"] = logits;
    return output;
  }

  void validation_step_end(StepOutput output) override {
    if (on_validation_end) on_validation_end(output);
  }

  [[nodiscard]] std::unique_ptr<Optimizer> configure_optimizers(const OptimizerSpec& spec) override {
    return own_optimizer ? own_optimizer(*this) : Module::configure_optimizers(spec);
  }

  [[nodiscard]] std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return callbacks; }

  void set_uses_batch_norm(bool uses) { uses_batch_norm_ = uses; }

  std::function<void(std::int64_t)> on_step;
  std::function<void(std::int64_t)> on_validation;                        ///< As on_step, in each validation step.
  std::function<void(const StepOutput&)> on_validation_end;               ///< Called by validation_step_end.
  std::function<std::unique_ptr<Optimizer>(SmallModule&)> own_optimizer;  ///< Not set: that of the job.
  std::vector<std::shared_ptr<Callback>> callbacks;
  double loss_factor = 1.0;
  double loss_offset = 0.0;  ///< Changes no gradient.
  bool shows_images = false;
  torch::Tensor spare = torch::zeros({1});  ///< No loss depends on it.

 private:
  bool uses_batch_norm_ = true;

  torch::Tensor forward(const torch::Tensor& images) {
    return out_(drop_(torch::relu(hidden_((uses_batch_norm_ ? norm_(images) : images).flatten(1)))));
  }

  torch::nn::BatchNorm2d norm_{1};
  torch::nn::Linear hidden_{784, 8};
  torch::nn::Dropout drop_;
  torch::nn::Linear out_{8, 10};
};

/// Makes a module whose weights depend on `seed` alone. Must not be called from several threads at a time.
inline std::shared_ptr<SmallModule> make_small_module(std::int64_t seed, double dropout = 0.0) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return std::make_shared<SmallModule>(dropout);
}

/// `part`: 0 is for training, 1 for validation.
inline data::ImageDataset make_small_dataset(std::int64_t samples, std::int64_t part) {
  auto images = data::make_synthetic_images(samples, 0, part == 0 ? data::Part::train : data::Part::validation);
  return data::ImageDataset{std::move(images.images), std::move(images.labels)};
}

}  // namespace trainyard::train
