#include "worker/data/image_folder_dataset.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "worker/data/decode_image.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t picture_side_max = 4096;

/// Two numbers, of which the second is not smaller.
std::array<double, 2> read_bounds(const Options& options, const char* name, const std::array<double, 2>& otherwise,
                                  const Range<double>& range) {
  const auto values = options.numbers(name, std::vector<double>{otherwise[0], otherwise[1]}, range);
  if (values.size() != 2 || values[0] > values[1])
    throw InvalidJob{fmt::format("training.data.options.{}: must be two numbers, the smaller one first", name)};
  return {values[0], values[1]};
}

RandomPart read_random_part(const Options& options) {
  const RandomPart usual;
  return {.scale = read_bounds(options, "cropScale", usual.scale, {.min = 0.0001, .max = 1}),
          .ratio = read_bounds(options, "cropRatio", usual.ratio, {.min = 0.01, .max = 100})};
}

}  // namespace

PictureChanges read_picture_changes(const DataSource& source) {
  const Options& options = source.options;
  PictureChanges changes;
  changes.size = options.integer("size", 224, {.min = 1, .max = picture_side_max});
  // 256 for 224, as is usual for ImageNet.
  changes.resize = options.integer("resize", (changes.size * 8 + 6) / 7, {.min = 1, .max = 2 * picture_side_max});
  if (changes.resize < changes.size) {
    throw InvalidJob{fmt::format("training.data.options.resize: must be at least the size {}, got {}", changes.size,
                                 changes.resize)};
  }
  changes.channels = read_channels(options);
  const RandomPart part = read_random_part(options);
  if (options.boolean("randomResizedCrop", false)) changes.random_part = part;
  changes.horizontal_flip = options.boolean("horizontalFlip", false);
  changes.normalization = read_normalization(options, changes.channels, torch::kCPU);
  changes.seed = source.seed;
  return changes;
}

ImageFolderDataset::ImageFolderDataset(ImageFolder images, PictureChanges changes)
    : images_{std::move(images)}, changes_{std::move(changes)}, id_{checksum_of(images_)} {}

Batch ImageFolderDataset::gather(const torch::Tensor& ids) const {
  return batch_of(ids, std::nullopt);
}

Batch ImageFolderDataset::gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const {
  return batch_of(ids, epoch);
}

Batch ImageFolderDataset::batch_of(const torch::Tensor& ids, std::optional<std::int64_t> epoch) const {
  const std::int64_t count = ids.size(0);
  const torch::Tensor pictures = torch::empty({count, changes_.channels, changes_.size, changes_.size}, torch::kUInt8);
  const torch::Tensor labels = torch::empty({count}, torch::kInt64);
  for (std::int64_t place = 0; place < count; ++place) {
    const auto id = ids[place].item<std::int64_t>();
    pictures[place].copy_(sample(id, epoch));
    labels[place] = images_.labels.at(static_cast<std::size_t>(id));
  }
  return {.inputs = changes_.normalization.apply(pictures.to(torch::kFloat).div_(255)), .targets = labels, .ids = ids};
}

torch::Tensor ImageFolderDataset::sample(std::int64_t id, std::optional<std::int64_t> epoch) const {
  const auto place = static_cast<std::size_t>(id);
  const torch::Tensor picture = load_picture(images_.folder / images_.files.at(place), changes_.channels);
  const ImageSize square{.width = changes_.size, .height = changes_.size};
  SampleRandom random{changes_.seed, epoch.value_or(0), id};
  const bool is_mirrored = random.coin() && changes_.horizontal_flip && epoch;
  torch::Tensor sample;
  if (epoch && changes_.random_part) {
    sample = resized(part_of(picture, random_part(size_of(picture), *changes_.random_part, random)), square);
  } else {
    const ImageSize scaled = scaled_to_side(size_of(picture), changes_.resize);
    if (const auto checked = check_image_size(scaled.width, scaled.height); !checked) {
      throw InvalidJob{
          fmt::format("the picture {} is too narrow: resized, {}", images_.files.at(place), checked.error().message)};
    }
    const torch::Tensor small = resized(picture, scaled);
    sample = part_of(small, middle_part(size_of(small), square));
  }
  return is_mirrored ? sample.flip(2) : sample;
}

}  // namespace trainyard::data
