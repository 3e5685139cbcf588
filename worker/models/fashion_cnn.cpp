#include "worker/models/fashion_cnn.hpp"

#include <torch/types.h>

namespace trainyard::models {

namespace nn = torch::nn;

FashionCNN::FashionCNN()
    : layer1_{nn::Conv2d{nn::Conv2dOptions(1, 32, 3).padding(1)}, nn::BatchNorm2d{32}, nn::ReLU{}, nn::MaxPool2d{2}},
      layer2_{nn::Conv2d{nn::Conv2dOptions(32, 64, 3)}, nn::BatchNorm2d{64}, nn::ReLU{}, nn::MaxPool2d{2}},
      fc1_{64 * 6 * 6, 600},
      drop_{0.25},
      fc2_{600, 120},
      fc3_{120, 10} {
  register_module("layer1", layer1_);
  register_module("layer2", layer2_);
  register_module("fc1", fc1_);
  register_module("drop", drop_);
  register_module("fc2", fc2_);
  register_module("fc3", fc3_);
}

torch::Tensor FashionCNN::forward(const torch::Tensor& images) {
  const torch::Tensor features = layer2_->forward(layer1_->forward(images)).flatten(1);
  return fc3_(fc2_(drop_(fc1_(features))));
}

StepOutput FashionCNN::training_step(const Batch& batch, std::int64_t /*batch_index*/) {
  return torch::cross_entropy_loss(forward(batch.inputs), batch.targets);
}

void FashionCNN::validation_step(const Batch& batch, std::int64_t /*batch_index*/) {
  const torch::Tensor logits = forward(batch.inputs);
  log("val_loss", torch::cross_entropy_loss(logits, batch.targets));
  log("val_accuracy", logits.argmax(1).eq(batch.targets).to(torch::kDouble).mean());
}

}  // namespace trainyard::models
