#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>

#include "worker/data/sample_random.hpp"

namespace trainyard::data {

struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool operator==(const ImageSize&) const = default;
};

struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  ImageSize size;
  bool operator==(const Box&) const = default;
};

/// The bounds of a random part of an image.
struct RandomPart {
  std::array<double, 2> scale{0.08, 1.0};             ///< Smallest and largest share of the image's area.
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  ///< Width by height.
};

/// A part of an image of `size` at random. When ten tries give none that fits, the largest part in the middle whose
/// ratio is within the bounds. Source: torchvision.transforms.RandomResizedCrop (Szegedy et al. 2015).
[[nodiscard]] Box random_part(const ImageSize& size, const RandomPart& part, SampleRandom& random);
/// The part of `part` in the middle of an image of `size`, which is not smaller.
[[nodiscard]] Box middle_part(const ImageSize& size, const ImageSize& part);
/// The size of an image of `size` after its shorter side became `side`.
[[nodiscard]] ImageSize scaled_to_side(const ImageSize& size, std::int64_t side);

/// image: [C, H, W]. Views.
[[nodiscard]] ImageSize size_of(const torch::Tensor& image);
[[nodiscard]] torch::Tensor part_of(const torch::Tensor& image, const Box& box);
/// `image` (uint8 [C, H, W]) in another size: bilinear with antialiasing, as torchvision's Resize.
[[nodiscard]] torch::Tensor resized(const torch::Tensor& image, const ImageSize& size);

}  // namespace trainyard::data
