#include "worker/models/fashion_cnn.hpp"

#include <torch/types.h>

#include <algorithm>

#include "worker/models/check_batch.hpp"

namespace trainyard::models {

namespace nn = torch::nn;

namespace {

constexpr std::int64_t shown_images_max = 16;
constexpr std::int64_t frame_pixels = 2;
constexpr double drop_rate = 0.25;

void check_fashion(const Batch& batch) {
  check_images(batch, {.model = "fashion_cnn",
                       .channels = 1,
                       .side = 28,
                       .advice = "take the model resnet18, or images of that size: fashion_cnn has no options"});
}

/// The first of `images` ([B, 1, H, W]), each in a frame: green where the predicted class is right (`is_right`, bool
/// [B]), red where it is wrong.
torch::Tensor framed(const torch::Tensor& images, const torch::Tensor& is_right) {
  const std::int64_t count = std::min(images.size(0), shown_images_max);
  const torch::Tensor shown = images.slice(0, 0, count);
  const torch::Tensor right = is_right.slice(0, 0, count).to(shown.scalar_type());
  const torch::Tensor colors = torch::stack({1 - right, right, torch::zeros_like(right)}, 1);
  torch::Tensor frames = colors.view({count, 3, 1, 1})
                             .expand({count, 3, shown.size(2) + 2 * frame_pixels, shown.size(3) + 2 * frame_pixels})
                             .clone();
  frames.slice(2, frame_pixels, frame_pixels + shown.size(2))
      .slice(3, frame_pixels, frame_pixels + shown.size(3))
      .copy_(shown.expand({count, 3, shown.size(2), shown.size(3)}));
  return frames;
}

}  // namespace

FashionCNN::FashionCNN()
    : layer1_{nn::Conv2d{nn::Conv2dOptions(1, 32, 3).padding(1)}, nn::BatchNorm2d{32}, nn::ReLU{}, nn::MaxPool2d{2}},
      layer2_{nn::Conv2d{nn::Conv2dOptions(32, 64, 3)}, nn::BatchNorm2d{64}, nn::ReLU{}, nn::MaxPool2d{2}},
      fc1_{64 * 6 * 6, 600},
      fc2_{600, 120},
      fc3_{120, 10} {
  register_module("layer1", layer1_);
  register_module("layer2", layer2_);
  register_module("fc1", fc1_);
  register_module("fc2", fc2_);
  register_module("fc3", fc3_);
}

torch::Tensor FashionCNN::forward(const torch::Tensor& images) {
  const torch::Tensor features = layer2_->forward(layer1_->forward(images)).flatten(1);
  // As Python's Dropout2d does with a matrix: it drops single features. LibTorch's Dropout2d would drop whole samples.
  const torch::Tensor kept = torch::feature_dropout(fc1_(features), drop_rate, is_training());
  return fc3_(fc2_(kept));
}

StepOutput FashionCNN::training_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check_fashion(batch);
  return torch::cross_entropy_loss(forward(batch.inputs), batch.targets);
}

StepOutput FashionCNN::validation_step(const Batch& batch, std::int64_t batch_index) {
  check_fashion(batch);
  const torch::Tensor logits = forward(batch.inputs);
  const torch::Tensor is_right = logits.argmax(1).eq(batch.targets);
  log("val_loss", torch::cross_entropy_loss(logits, batch.targets));
  log("val_accuracy", is_right.to(torch::kDouble).mean());
  if (batch_index == 0) log_image("validation", framed(batch.inputs, is_right));
  return {};
}

std::map<std::string, torch::Tensor> FashionCNN::predict_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check_fashion(batch);
  const torch::Tensor logits = forward(batch.inputs);
  return {{"class", logits.argmax(1)}, {"logits", logits}};
}

}  // namespace trainyard::models
