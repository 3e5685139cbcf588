#pragma once

#include <torch/nn.h>
#include <trainyard/trainyard.hpp>

#include <array>
#include <cstdint>

namespace trainyard::models {

/// A residual network for images, with the names, shapes and first values of torchvision's parameters: version 1.5,
/// whose bottlenecks halve the image in their 3x3 convolution. Source: He et al. 2015, Goyal et al. 2017.
///
/// Options: classes (1000), channels of an image (3), smallImages (false; true: the first convolution keeps the size
/// and nothing is pooled, as is usual for CIFAR's 32x32).
class ResNet : public Module {
 public:
  enum class Block { basic, bottleneck };

  /// images: float [B, channels, H, W]. Returns logits, float [B, classes].
  torch::Tensor forward(const torch::Tensor& images);

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override;
  /// Logs val_loss and val_accuracy.
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override;
  /// "logits": float [B, classes]; "class": int64 [B], the class with the largest of them.
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t batch_index) override;
  [[nodiscard]] std::int64_t classes() const override { return fc_->options.out_features(); }

 protected:
  /// `depths`: the number of blocks in each of the four layers.
  ResNet(const Options& options, Block block, const std::array<std::int64_t, 4>& depths);

 private:
  /// Throws InvalidJob for a batch that the network cannot train on.
  void check(const Batch& batch) const;

  bool has_small_images_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_{64};
  std::array<torch::nn::Sequential, 4> layers_;
  torch::nn::Linear fc_;
};

/// 11,689,512 parameters with 1000 classes. A TrainingJob names it "resnet18".
class ResNet18 final : public ResNet {
 public:
  explicit ResNet18(const Options& options) : ResNet{options, Block::basic, {2, 2, 2, 2}} {}
};

/// 25,557,032 parameters with 1000 classes. A TrainingJob names it "resnet50".
class ResNet50 final : public ResNet {
 public:
  explicit ResNet50(const Options& options) : ResNet{options, Block::bottleneck, {3, 4, 6, 3}} {}
};

}  // namespace trainyard::models
