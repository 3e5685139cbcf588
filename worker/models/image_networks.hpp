#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>

/// The networks of pix2pix (Isola et al. 2017), with the parameters' names and shapes that its authors' program and
/// DeepLIIF's give them.
namespace trainyard::models {

enum class Norm { batch, instance, none };

/// A network from images to images.
class ImageNetwork : public torch::nn::Module {
 public:
  /// images: float [B, C, H, W].
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& images) = 0;
};

struct NetworkSize {
  std::int64_t in = 3;   ///< Channels of an image.
  std::int64_t out = 3;  ///< Not read for a discriminator.
  std::int64_t filters = 64;
  Norm norm = Norm::batch;
  bool has_dropout = true;   ///< Generators only.
  bool is_reflected = true;  ///< resnet generators only: the padding continues the image; else it is zero.
};

/// A generator by its name: resnet_6blocks, resnet_9blocks and so on, or unet_32 to unet_512. Its images are from -1
/// to 1. Throws InvalidJob for another name; `option` is the option that has the name.
[[nodiscard]] std::shared_ptr<ImageNetwork> make_generator(const std::string& name, const NetworkSize& size,
                                                           const std::string& option);
/// The sides of an image must be a multiple of this. `name` is one that make_generator() knows.
[[nodiscard]] std::int64_t side_unit(const std::string& name);

/// A PatchGAN discriminator with `layers` layers that halve the image. It gives logits, float [B, 1, H', W'], each for
/// a part of the image.
[[nodiscard]] std::shared_ptr<ImageNetwork> make_discriminator(std::int64_t layers, const NetworkSize& size);
/// The shortest side of an image that such a discriminator takes.
[[nodiscard]] std::int64_t discriminated_side_min(std::int64_t layers);

}  // namespace trainyard::models
