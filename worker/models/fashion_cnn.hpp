#pragma once

#include <torch/nn.h>
#include <trainyard/trainyard.hpp>

namespace trainyard::models {

/// A small convolutional classifier of 28x28 images in one channel and 10 classes: 1,475,338 parameters. "fashion_cnn"
/// in a TrainingJob. Source: FashionCNN of DTU's course on MLOps, session on distributed training.
class FashionCNN final : public Module {
 public:
  FashionCNN();

  /// images: float [B, 1, 28, 28]. Returns logits, float [B, 10].
  torch::Tensor forward(const torch::Tensor& images);

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override;
  /// Shows the first 16 images of this rank as "validation", in green frames where their class is found, else in red.
  void validation_step(const Batch& batch, std::int64_t batch_index) override;

 private:
  torch::nn::Sequential layer1_;
  torch::nn::Sequential layer2_;
  torch::nn::Linear fc1_;
  torch::nn::Dropout2d drop_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace trainyard::models
