#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "include/trainyard/module.hpp"

namespace trainyard::train {

/// A GAN that learns one part of a picture from another. The generator makes the fakes once for each batch, in the
/// discriminator's turn, and the generator's turn goes on from them.
class ToyGan final : public Module {
 public:
  ToyGan() {
    register_module("generator", generator_);
    register_module("norm", norm_);
    register_module("discriminator", discriminator_);
    register_module("frozen", frozen_);
  }

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    if (on_turn) on_turn(optimizer_turn(), batch);
    const torch::Tensor pixels = batch.inputs.flatten(1);
    const torch::Tensor real = pixels.slice(1, 300, 306);
    if (optimizer_turn() == "discriminator") {
      fakes_ = generate(pixels.slice(1, 400, 408));
      const torch::Tensor shown = detaches ? fakes_.detach() : fakes_;
      return (loss_of(discriminator_(real), 1.0) + loss_of(discriminator_(shown), 0.0)) * loss_factor;
    }
    const FrozenParameters frozen{freezes ? discriminator_->parameters() : std::vector<torch::Tensor>{}};
    return (loss_of(discriminator_(fakes_), 1.0) + torch::l1_loss(fakes_, real)) * loss_factor;
  }

  [[nodiscard]] std::vector<NamedOptimizer> configure_named_optimizers(const OptimizerSpec& spec) override {
    std::vector<NamedOptimizer> optimizers;
    optimizers.push_back(make_named_optimizer(
        "discriminator", spec, {{.parameters = discriminator_->parameters(), .lr = discriminator_lr}}, *this));
    std::vector<torch::Tensor> rest = generator_->parameters();
    for (const torch::Tensor& parameter : norm_->parameters()) rest.push_back(parameter);
    optimizers.push_back(make_named_optimizer("generator", spec, {{.parameters = rest}}, *this));
    return optimizers;
  }

  [[nodiscard]] std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return callbacks; }

  [[nodiscard]] torch::Tensor generate(const torch::Tensor& seeds) {
    const torch::Tensor made = generator_(seeds) + frozen_(seeds);
    return uses_batch_norm ? norm_(made) : made;
  }
  [[nodiscard]] static torch::Tensor loss_of(const torch::Tensor& prediction, double target) {
    return torch::binary_cross_entropy_with_logits(prediction, torch::full_like(prediction, target));
  }

  std::function<void(const std::string& name, const Batch& batch)> on_turn;  ///< As each turn begins.
  std::vector<std::shared_ptr<Callback>> callbacks;
  double loss_factor = 1.0;
  std::optional<double> discriminator_lr;  ///< Nothing: that of the job's optimizer.
  bool detaches = true;                    ///< The fakes, in the discriminator's turn.
  bool freezes = true;                     ///< The discriminator, in the generator's turn.
  bool uses_batch_norm = false;            ///< Its buffers are those of the module.

 private:
  torch::Tensor fakes_;
  torch::nn::Linear generator_{8, 6};
  torch::nn::BatchNorm1d norm_{6};
  torch::nn::Linear discriminator_{6, 1};
  torch::nn::Linear frozen_{8, 6};  // No optimizer has its parameters.
};

/// Makes a module whose weights depend on `seed` alone. Must not be called from several threads at a time.
inline std::shared_ptr<ToyGan> make_toy_gan(std::uint64_t seed) {
  torch::manual_seed(seed);
  return std::make_shared<ToyGan>();
}

}  // namespace trainyard::train
