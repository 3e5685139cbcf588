#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::data {

/// Random changes of training images that keep their size.
struct Augmentation {
  std::int64_t crop_padding = 0;  ///< Pixels of black around an image, of which a part of its own size is taken.
  bool horizontal_flip = false;   ///< Half of the images are mirrored.
};

/// Subtracts the mean of each channel and divides by its standard deviation. Empty: neither.
class Normalization {
 public:
  Normalization() = default;
  Normalization(const std::vector<double>& mean, const std::vector<double>& deviation, torch::Device device);

  /// `images`: float [..., C, H, W], which this changes in place.
  [[nodiscard]] torch::Tensor apply(torch::Tensor images) const;

 private:
  torch::Tensor mean_;  // [C, 1, 1]
  torch::Tensor deviation_;
};

/// The options randomCropPadding and horizontalFlip. Throws InvalidJob.
[[nodiscard]] Augmentation read_augmentation(const Options& options);
/// The option channels: 3, or 1 for gray. Throws InvalidJob.
[[nodiscard]] std::int64_t read_channels(const Options& options);
/// The options mean and std, each with a number for each of `channels`. Throws InvalidJob.
[[nodiscard]] Normalization read_normalization(const Options& options, std::int64_t channels, torch::Device device);

/// `images` ([B, C, H, W], of any type) cropped and mirrored at random, on their device. Each sample of `ids` (int64
/// [B] on the CPU) has its own random numbers of `seed` and `epoch`.
[[nodiscard]] torch::Tensor crop_and_flip(const torch::Tensor& images, const Augmentation& augmentation,
                                          const torch::Tensor& ids, std::int64_t seed, std::int64_t epoch);

}  // namespace trainyard::data
