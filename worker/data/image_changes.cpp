#include "worker/data/image_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "worker/data/sample_random.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t crop_padding_max = 256;
constexpr double deviation_min = 1e-6;

void check_channel_count(const char* name, const std::vector<double>& values, std::int64_t channels) {
  if (static_cast<std::int64_t>(values.size()) == channels) return;
  throw InvalidJob{fmt::format("training.data.options.{}: must have a number for each of the {} channels, got {}", name,
                               channels, values.size())};
}

torch::Tensor per_channel(const std::vector<double>& values, torch::Device device) {
  return torch::tensor(values, torch::kDouble).to(torch::kFloat).view({-1, 1, 1}).to(device);
}

}  // namespace

Normalization::Normalization(const std::vector<double>& mean, const std::vector<double>& deviation,
                             torch::Device device)
    : mean_{per_channel(mean, device)}, deviation_{per_channel(deviation, device)} {}

torch::Tensor Normalization::apply(torch::Tensor images) const {
  return mean_.defined() ? images.sub_(mean_).div_(deviation_) : images;
}

Augmentation read_augmentation(const Options& options) {
  return {.crop_padding = options.integer("randomCropPadding", 0, {.min = 0, .max = crop_padding_max}),
          .horizontal_flip = options.boolean("horizontalFlip", false)};
}

std::int64_t read_channels(const Options& options) {
  const std::int64_t channels = options.integer("channels", 3, {.min = 1, .max = 3});
  if (channels == 2) throw InvalidJob{"training.data.options.channels: must be 1 (gray) or 3 (colours), got 2"};
  return channels;
}

Normalization read_normalization(const Options& options, std::int64_t channels, torch::Device device) {
  const auto count = static_cast<std::size_t>(channels);
  const bool is_given = options.contains("mean") || options.contains("std");
  const auto mean = options.numbers("mean", std::vector<double>(count, 0.0), {.min = -1000, .max = 1000});
  const auto deviation = options.numbers("std", std::vector<double>(count, 1.0), {.min = deviation_min, .max = 1000});
  check_channel_count("mean", mean, channels);
  check_channel_count("std", deviation, channels);
  return is_given ? Normalization{mean, deviation, device} : Normalization{};
}

torch::Tensor crop_and_flip(const torch::Tensor& images, const Augmentation& augmentation, const torch::Tensor& ids,
                            std::int64_t seed, std::int64_t epoch) {
  const std::int64_t padding = augmentation.crop_padding;
  if (padding == 0 && !augmentation.horizontal_flip) return images;
  const std::int64_t batch = images.size(0);
  const std::int64_t height = images.size(2);
  const std::int64_t width = images.size(3);
  const torch::Tensor places = torch::empty({batch, height + width}, torch::kInt64);  // The rows, then the columns.
  auto place = places.accessor<std::int64_t, 2>();
  const torch::Tensor samples = ids.contiguous();
  for (std::int64_t image = 0; image < batch; ++image) {
    SampleRandom random{seed, epoch, samples.const_data_ptr<std::int64_t>()[image]};
    const std::int64_t top = random.below(2 * padding + 1);
    const std::int64_t left = random.below(2 * padding + 1);
    const bool is_mirrored = random.coin() && augmentation.horizontal_flip;
    for (std::int64_t y = 0; y < height; ++y) place[image][y] = top + y;
    for (std::int64_t x = 0; x < width; ++x) place[image][height + x] = left + (is_mirrored ? width - 1 - x : x);
  }
  // One gather crops and mirrors every image of the batch. A copy from pinned memory does not wait for the device.
  const torch::Tensor there = images.is_cpu() ? places : places.pin_memory().to(images.device(), /*non_blocking=*/true);
  const torch::Tensor padded = torch::constant_pad_nd(images, {padding, padding, padding, padding});
  return padded.index({torch::arange(batch, there.options()).view({-1, 1, 1, 1}),
                       torch::arange(images.size(1), there.options()).view({1, -1, 1, 1}),
                       there.slice(1, 0, height).unsqueeze(1).unsqueeze(3),
                       there.slice(1, height).unsqueeze(1).unsqueeze(2)});
}

}  // namespace trainyard::data
