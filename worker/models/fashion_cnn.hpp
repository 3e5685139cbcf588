#pragma once

#include <torch/nn.h>
#include <trainyard/trainyard.hpp>

namespace trainyard::models {

/// A small convolutional classifier for 28x28 images with one channel and 10 classes: 1,475,338 parameters. A
/// TrainingJob names it "fashion_cnn". Source: FashionCNN of DTU's course on MLOps, session on distributed training.
class FashionCNN final : public Module {
 public:
  FashionCNN();

  /// images: float [B, 1, 28, 28]. Returns logits, float [B, 10].
  torch::Tensor forward(const torch::Tensor& images);

  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override;
  /// Logs the first 16 images of this rank as "validation", with green frames where the predicted class is right and
  /// red ones where it is wrong.
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override;
  /// "logits": float [B, classes]; "class": int64 [B], the class with the largest of them.
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t batch_index) override;
  [[nodiscard]] std::int64_t classes() const override { return 10; }

 private:
  torch::nn::Sequential layer1_;
  torch::nn::Sequential layer2_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace trainyard::models
