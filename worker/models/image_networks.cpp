#include "worker/models/image_networks.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/padding.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <trainyard/options.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainyard::models {
namespace {

namespace nn = torch::nn;

constexpr double kernel_deviation = 0.02;
constexpr double dropout_rate = 0.5;
constexpr double leak = 0.2;
constexpr std::int64_t blocks_max = 100;
constexpr std::int64_t resnet_halvings = 2;

/// Layers one after the other. In a state dict each has its number as its name, so that a layer without parameters is
/// added too where others come after it.
class Layers {
 public:
  explicit Layers(const NetworkSize& size) : size_{size} {}

  /// A convolution before a norm has a bias only if the norm has none of its own.
  [[nodiscard]] bool has_bias() const { return size_.norm == Norm::instance; }
  template <typename Layer>
  void add(Layer layer) {
    layers_->push_back(std::move(layer));
  }
  void add_convolution(std::int64_t in, std::int64_t out, std::int64_t side, std::int64_t stride, std::int64_t padding,
                       bool has_bias) {
    add(nn::Conv2d{nn::Conv2dOptions(in, out, side).stride(stride).padding(padding).bias(has_bias)});
  }
  void add_norm(std::int64_t channels) {
    switch (size_.norm) {
      case Norm::batch:
        return add(nn::BatchNorm2d{channels});
      case Norm::instance:
        return add(nn::InstanceNorm2d{channels});
      case Norm::none:
        return add(nn::Identity{});
    }
  }
  void add_relu() { add(nn::ReLU{nn::ReLUOptions(/*inplace=*/true)}); }
  void add_leaky_relu() { add(nn::LeakyReLU{nn::LeakyReLUOptions().negative_slope(leak).inplace(true)}); }
  /// Padding before a convolution of a resnet generator.
  void add_padding(std::int64_t width) {
    size_.is_reflected ? add(nn::ReflectionPad2d{width}) : add(nn::ZeroPad2d{width});
  }
  [[nodiscard]] nn::Sequential take() { return layers_; }

 private:
  NetworkSize size_;
  nn::Sequential layers_;
};

/// A network whose parameters are those of `body`, named "model".
template <typename Body>
class Network final : public ImageNetwork {
 public:
  explicit Network(Body body) : body_(std::move(body)) {  // Braces would ask for a list of layers.
    register_module("model", body_);
  }
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& images) override { return body_->forward(images); }

 private:
  Body body_;
};

/// Two convolutions, whose result is added to the block's input.
class ResnetBlock final : public nn::Module {
 public:
  ResnetBlock(std::int64_t channels, const NetworkSize& size) {
    Layers layers{size};
    for (const bool is_first : {true, false}) {
      // Zeros are a property of the convolution here, and no layer.
      if (size.is_reflected) layers.add_padding(1);
      layers.add_convolution(channels, channels, 3, 1, size.is_reflected ? 0 : 1, layers.has_bias());
      layers.add_norm(channels);
      if (!is_first) continue;
      layers.add_relu();
      if (size.has_dropout) layers.add(nn::Dropout{dropout_rate});
    }
    layers_ = layers.take();
    register_module("conv_block", layers_);
  }
  torch::Tensor forward(const torch::Tensor& input) { return input + layers_->forward(input); }

 private:
  nn::Sequential layers_;
};

nn::Sequential resnet_layers(std::int64_t blocks, const NetworkSize& size) {
  Layers layers{size};
  layers.add_padding(3);
  layers.add_convolution(size.in, size.filters, 7, 1, 0, layers.has_bias());
  layers.add_norm(size.filters);
  layers.add_relu();
  std::int64_t channels = size.filters;
  for (std::int64_t halving = 0; halving < resnet_halvings; ++halving, channels *= 2) {
    layers.add_convolution(channels, 2 * channels, 3, 2, 1, layers.has_bias());
    layers.add_norm(2 * channels);
    layers.add_relu();
  }
  for (std::int64_t block = 0; block < blocks; ++block) layers.add(std::make_shared<ResnetBlock>(channels, size));
  for (std::int64_t doubling = 0; doubling < resnet_halvings; ++doubling, channels /= 2) {
    layers.add(nn::ConvTranspose2d{nn::ConvTranspose2dOptions(channels, channels / 2, 3)
                                       .stride(2)
                                       .padding(1)
                                       .output_padding(1)
                                       .bias(layers.has_bias())});
    layers.add_norm(channels / 2);
    layers.add_relu();
  }
  layers.add_padding(3);
  layers.add_convolution(channels, size.out, 7, 1, 0, /*has_bias=*/true);
  layers.add(nn::Tanh{});
  return layers.take();
}

/// A level of a U-Net: halves the image, gives it to the level within, and doubles the result. Each level but the
/// outermost gives its input beside it. Its first activation changes that input in place, as in pix2pix, so that the
/// level around it gets the activated values.
class UnetLevel final : public nn::Module {
 public:
  enum class Place { outermost, between, innermost };
  struct Channels {
    std::int64_t in = 0;      // of the image from the level around it
    std::int64_t out = 0;     // of what this level makes
    std::int64_t within = 0;  // of the image that goes to the level within
  };

  UnetLevel(const Channels& channels, Place place, const NetworkSize& size, bool has_dropout,
            const std::shared_ptr<UnetLevel>& within = nullptr)
      : place_{place} {
    Layers layers{size};
    const bool is_outermost = place == Place::outermost;
    const bool is_innermost = place == Place::innermost;
    if (!is_outermost) layers.add_leaky_relu();
    layers.add_convolution(channels.in, channels.within, 4, 2, 1, layers.has_bias());
    if (place == Place::between) layers.add_norm(channels.within);
    if (!is_innermost) layers.add(within);
    layers.add_relu();
    const std::int64_t gathered = is_innermost ? channels.within : 2 * channels.within;
    layers.add(nn::ConvTranspose2d{nn::ConvTranspose2dOptions(gathered, channels.out, 4)
                                       .stride(2)
                                       .padding(1)
                                       .bias(is_outermost || layers.has_bias())});
    is_outermost ? layers.add(nn::Tanh{}) : layers.add_norm(channels.out);
    if (place == Place::between && has_dropout) layers.add(nn::Dropout{dropout_rate});
    layers_ = layers.take();
    register_module("model", layers_);
  }

  torch::Tensor forward(const torch::Tensor& image) {
    if (place_ == Place::outermost) return layers_->forward(image);
    const torch::Tensor made = layers_->forward(image);
    return torch::cat({image, made}, 1);
  }

 private:
  Place place_;
  nn::Sequential layers_;
};

std::shared_ptr<UnetLevel> unet_levels(std::int64_t halvings, const NetworkSize& size) {
  using Place = UnetLevel::Place;
  const auto between = [&](std::int64_t outer, std::int64_t inner, bool has_dropout,
                           const std::shared_ptr<UnetLevel>& within) {
    return std::make_shared<UnetLevel>(UnetLevel::Channels{.in = outer, .out = outer, .within = inner}, Place::between,
                                       size, has_dropout, within);
  };
  const std::int64_t filters = size.filters, widest = 8 * filters;
  auto level = std::make_shared<UnetLevel>(UnetLevel::Channels{.in = widest, .out = widest, .within = widest},
                                           Place::innermost, size, false);
  for (std::int64_t count = 0; count < halvings - 5; ++count) level = between(widest, widest, size.has_dropout, level);
  for (std::int64_t factor = 4; factor >= 1; factor /= 2)
    level = between(factor * filters, 2 * factor * filters, false, level);
  return std::make_shared<UnetLevel>(UnetLevel::Channels{.in = size.in, .out = size.out, .within = filters},
                                     Place::outermost, size, false, level);
}

/// Normal values with a small deviation for all kernels, and around 1 for the weights of norms; no bias.
void initialize(nn::Module& network) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    torch::Tensor parameter = item.value();
    if (item.key().ends_with("bias")) {
      parameter.zero_();
    } else {
      parameter.normal_(parameter.dim() == 1 ? 1.0 : 0.0, kernel_deviation);
    }
  }
}

/// The number between `front` and `back` in `name`.
std::optional<std::int64_t> number_between(std::string_view front, std::string_view name, std::string_view back) {
  if (!name.starts_with(front) || !name.ends_with(back) || name.size() <= front.size() + back.size())
    return std::nullopt;
  const std::string_view digits = name.substr(front.size(), name.size() - front.size() - back.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> resnet_blocks(const std::string& name) {
  const auto blocks = number_between("resnet_", name, "blocks");
  return blocks && *blocks >= 1 && *blocks <= blocks_max ? blocks : std::nullopt;
}

/// How often the U-Net of that name halves its images.
std::optional<std::int64_t> unet_halvings(const std::string& name) {
  for (std::int64_t halvings = 5; halvings <= 9; ++halvings)
    if (name == "unet_" + std::to_string(1 << halvings)) return halvings;
  return std::nullopt;
}

}  // namespace

std::shared_ptr<ImageNetwork> make_generator(const std::string& name, const NetworkSize& size,
                                             const std::string& option) {
  std::shared_ptr<ImageNetwork> network;
  if (const auto blocks = resnet_blocks(name)) {
    network = std::make_shared<Network<nn::Sequential>>(resnet_layers(*blocks, size));
  } else if (const auto halvings = unet_halvings(name)) {
    network = std::make_shared<Network<std::shared_ptr<UnetLevel>>>(unet_levels(*halvings, size));
  } else {
    throw InvalidJob{option + ": no generator '" + name +
                     "' here (there is: resnet_6blocks and others with 1 to 100 blocks, unet_32, unet_64, unet_128, "
                     "unet_256, unet_512)"};
  }
  initialize(*network);
  return network;
}

std::int64_t side_unit(const std::string& name) {
  return std::int64_t{1} << unet_halvings(name).value_or(resnet_halvings);
}

std::shared_ptr<ImageNetwork> make_discriminator(std::int64_t layers, const NetworkSize& size) {
  constexpr std::int64_t factor_max = 8;
  Layers all{size};
  all.add_convolution(size.in, size.filters, 4, 2, 1, /*has_bias=*/true);
  all.add_leaky_relu();
  std::int64_t factor = 1;
  for (std::int64_t layer = 1; layer <= layers; ++layer) {
    const std::int64_t next = std::min(2 * factor, factor_max);
    all.add_convolution(factor * size.filters, next * size.filters, 4, layer < layers ? 2 : 1, 1, all.has_bias());
    all.add_norm(next * size.filters);
    all.add_leaky_relu();
    factor = next;
  }
  all.add_convolution(factor * size.filters, 1, 4, 1, 1, /*has_bias=*/true);
  auto network = std::make_shared<Network<nn::Sequential>>(all.take());
  initialize(*network);
  return network;
}

std::int64_t discriminated_side_min(std::int64_t layers) {
  return 3 * (std::int64_t{1} << layers);  // Two convolutions at the end take one pixel each.
}

}  // namespace trainyard::models
