#include "worker/models/resnet.hpp"

#include <torch/nn/init.h>
#include <torch/types.h>

#include <algorithm>
#include <string>

#include "worker/models/check_batch.hpp"

namespace trainyard::models {
namespace {

constexpr std::int64_t classes_max = 1'000'000;
constexpr std::int64_t image_channels_max = 1024;
constexpr std::int64_t first_width = 64;
/// The last layer has the side of an image divided by this, rounded up, unless smallImages is true.
constexpr std::int64_t whole_stride = 32;

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride = 1) {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions(in, out, side).stride(stride).padding(side / 2).bias(false)};
}

/// How many channels a block of `width` gives.
std::int64_t channels_of(ResNet::Block block, std::int64_t width) {
  return block == ResNet::Block::basic ? width : 4 * width;
}

/// A number of convolutions whose result is added to the block's input.
class ResidualBlock final : public torch::nn::Module {
 public:
  ResidualBlock(ResNet::Block block, std::int64_t in, std::int64_t width, std::int64_t stride) {
    const std::int64_t out = channels_of(block, width);
    if (block == ResNet::Block::basic) {
      add(1, convolution(in, width, 3, stride), width);
      add(2, convolution(width, width, 3), width);
    } else {
      add(1, convolution(in, width, 1), width);
      add(2, convolution(width, width, 3, stride), width);
      add(3, convolution(width, out, 1), out);
    }
    if (stride == 1 && in == out) return;
    downsample_ = torch::nn::Sequential{convolution(in, out, 1, stride), torch::nn::BatchNorm2d{out}};
    register_module("downsample", downsample_);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor result = input;
    for (std::size_t place = 0; place < convolutions_.size(); ++place) {
      result = norms_[place](convolutions_[place](result));
      if (place + 1 < convolutions_.size()) result = result.relu_();
    }
    return result.add_(downsample_.is_empty() ? input : downsample_->forward(input)).relu_();
  }

 private:
  void add(int number, const torch::nn::Conv2d& convolution, std::int64_t channels) {
    convolutions_.push_back(register_module("conv" + std::to_string(number), convolution));
    norms_.push_back(register_module("bn" + std::to_string(number), torch::nn::BatchNorm2d{channels}));
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};

torch::nn::Sequential layer_of(ResNet::Block block, std::int64_t in, std::int64_t width, std::int64_t depth,
                               std::int64_t stride) {
  torch::nn::Sequential layer;
  layer->push_back(std::make_shared<ResidualBlock>(block, in, width, stride));
  for (std::int64_t number = 1; number < depth; ++number)
    layer->push_back(std::make_shared<ResidualBlock>(block, channels_of(block, width), width, 1));
  return layer;
}

}  // namespace

ResNet::ResNet(const Options& options, Block block, const std::array<std::int64_t, 4>& depths)
    : has_small_images_{options.boolean("smallImages", false)},
      conv1_{nullptr},
      layers_{nullptr, nullptr, nullptr, nullptr},
      fc_{channels_of(block, 8 * first_width), options.integer("classes", 1000, {.min = 1, .max = classes_max})} {
  const std::int64_t channels = options.integer("channels", 3, {.min = 1, .max = image_channels_max});
  conv1_ = has_small_images_ ? convolution(channels, first_width, 3) : convolution(channels, first_width, 7, 2);
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  std::int64_t in = first_width;
  for (std::size_t number = 0; number < layers_.size(); ++number) {
    const std::int64_t width = first_width << number;
    layers_[number] = layer_of(block, in, width, depths[number], number == 0 ? 1 : 2);
    register_module("layer" + std::to_string(number + 1), layers_[number]);
    in = channels_of(block, width);
  }
  register_module("fc", fc_);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* layer = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(layer->weight, 0.0, torch::kFanOut, torch::kReLU);
  }
}

torch::Tensor ResNet::forward(const torch::Tensor& images) {
  torch::Tensor features = bn1_(conv1_(images)).relu_();
  if (!has_small_images_) features = torch::max_pool2d(features, 3, 2, 1);
  for (torch::nn::Sequential& layer : layers_) features = layer->forward(features);
  return fc_(torch::adaptive_avg_pool2d(features, {1, 1}).flatten(1));
}

void ResNet::check(const Batch& batch) const {
  const std::int64_t channels = conv1_->options.in_channels();
  check_images(batch, {.model = "resnet",
                       .channels = channels,
                       .side = 0,
                       .advice = "set training.model.options.channels to the channels of the images"});
  if (has_small_images_ || std::max(batch.inputs.size(2), batch.inputs.size(3)) > whole_stride) return;
  throw InvalidJob{"the data has images " + describe(batch.inputs) +
                   ", of which the model's last layer would keep one pixel each: set "
                   "training.model.options.smallImages to true, as is usual for CIFAR's 32x32"};
}

StepOutput ResNet::training_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check(batch);
  return torch::cross_entropy_loss(forward(batch.inputs), batch.targets);
}

StepOutput ResNet::validation_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check(batch);
  const torch::Tensor logits = forward(batch.inputs);
  log("val_loss", torch::cross_entropy_loss(logits, batch.targets));
  log("val_accuracy", logits.argmax(1).eq(batch.targets).to(torch::kDouble).mean());
  return {};
}

std::map<std::string, torch::Tensor> ResNet::predict_step(const Batch& batch, std::int64_t /*batch_index*/) {
  check(batch);
  const torch::Tensor logits = forward(batch.inputs);
  return {{"class", logits.argmax(1)}, {"logits", logits}};
}

}  // namespace trainyard::models
