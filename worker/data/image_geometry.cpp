#include "worker/data/image_geometry.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard::data {
namespace {

constexpr int part_tries = 10;

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));  // Halves to even, as Python does.
}

Box part_within_ratio(const ImageSize& size, const RandomPart& part) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  ImageSize inner = size;
  if (ratio < part.ratio[0]) inner.height = rounded(static_cast<double>(size.width) / part.ratio[0]);
  if (ratio > part.ratio[1]) inner.width = rounded(static_cast<double>(size.height) * part.ratio[1]);
  inner.width = std::clamp<std::int64_t>(inner.width, 1, size.width);
  inner.height = std::clamp<std::int64_t>(inner.height, 1, size.height);
  return {.left = (size.width - inner.width) / 2, .top = (size.height - inner.height) / 2, .size = inner};
}

}  // namespace

Box random_part(const ImageSize& size, const RandomPart& part, SampleRandom& random) {
  const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
  for (int attempt = 0; attempt < part_tries; ++attempt) {
    const double target = area * random.uniform(part.scale[0], part.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(part.ratio[0]), std::log(part.ratio[1])));
    const ImageSize inner{.width = rounded(std::sqrt(target * ratio)), .height = rounded(std::sqrt(target / ratio))};
    if (inner.width < 1 || inner.width > size.width || inner.height < 1 || inner.height > size.height) continue;
    const std::int64_t top = random.below(size.height - inner.height + 1);
    const std::int64_t left = random.below(size.width - inner.width + 1);
    return {.left = left, .top = top, .size = inner};
  }
  return part_within_ratio(size, part);
}

Box middle_part(const ImageSize& size, const ImageSize& part) {
  return {.left = rounded(static_cast<double>(size.width - part.width) / 2.0),
          .top = rounded(static_cast<double>(size.height - part.height) / 2.0),
          .size = part};
}

ImageSize scaled_to_side(const ImageSize& size, std::int64_t side) {
  if (size.width <= size.height) return {.width = side, .height = side * size.height / size.width};
  return {.width = side * size.width / size.height, .height = side};
}

ImageSize size_of(const torch::Tensor& image) {
  return {.width = image.size(2), .height = image.size(1)};
}

torch::Tensor part_of(const torch::Tensor& image, const Box& box) {
  return image.slice(1, box.top, box.top + box.size.height).slice(2, box.left, box.left + box.size.width);
}

torch::Tensor resized(const torch::Tensor& image, const ImageSize& size) {
  if (size_of(image) == size) return image;
  return at::_upsample_bilinear2d_aa(image.unsqueeze(0), {size.height, size.width}, /*align_corners=*/false).squeeze(0);
}

}  // namespace trainyard::data
