#include "worker/data/open_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "common/try.hpp"
#include "worker/data/cifar.hpp"
#include "worker/data/idx.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/image_folder.hpp"
#include "worker/data/image_folder_dataset.hpp"
#include "worker/data/image_pairs.hpp"
#include "worker/data/list_folder.hpp"
#include "worker/data/safetensors_dataset.hpp"
#include "worker/data/synthetic.hpp"
#include "worker/data/token_dataset.hpp"

namespace trainyard::data {
namespace {

/// `read(part)` for both parts, in memory.
template <typename Read>
Result<Datasets> open_in_memory(const DataSource& source, std::int64_t channels, const Read& read) {
  const ImageChanges changes{.augmentation = read_augmentation(source.options),
                             .normalization = read_normalization(source.options, channels, source.device),
                             .seed = source.seed};
  const auto open = [&](Part part) -> Result<std::unique_ptr<Dataset>> {
    LabeledImages read_part = TRY(read(part));
    return std::make_unique<ImageDataset>(std::move(read_part.images), std::move(read_part.labels), source.device,
                                          changes);
  };
  Datasets datasets;
  datasets.train = TRY(open(Part::train));
  datasets.validation = TRY(open(Part::validation));
  return datasets;
}

std::int64_t synthetic_samples(const DataSource& source, Part part) {
  return part == Part::train ? source.samples : std::max<std::int64_t>(1, source.samples / 6);
}

Result<Datasets> open_synthetic(const DataSource& source) {
  if (asks_for_tokens(source.options)) {
    const auto open = [&](Part part) { return make_synthetic_tokens(source, synthetic_samples(source, part), part); };
    return Datasets{.train = open(Part::train), .validation = open(Part::validation)};
  }
  const SyntheticImages images = read_synthetic_images(source.options);
  return open_in_memory(source, images.channels, [&](Part part) -> Result<LabeledImages> {
    return make_synthetic_images(synthetic_samples(source, part), source.seed, part, images);
  });
}

/// False where the job trains without a validation set.
bool has_validation(const Options& options) {
  return options.boolean("validation", true);
}

Result<Datasets> open_image_folders(const DataSource& source) {
  const PictureChanges changes = read_picture_changes(source);
  const bool validates = has_validation(source.options);
  auto training = TRY(list_training_images(source.folder));
  Datasets datasets;
  if (validates) {
    auto validation = TRY(list_validation_images(source.folder, training));
    datasets.validation = std::make_unique<ImageFolderDataset>(std::move(validation), changes);
  }
  datasets.train = std::make_unique<ImageFolderDataset>(std::move(training), changes);
  return datasets;
}

Result<Datasets> open_image_pairs(const DataSource& source) {
  const PanelChanges changes = read_panel_changes(source);
  const std::filesystem::path root = source.folder;
  Datasets datasets;
  if (has_validation(source.options)) {
    const auto folder = TRY(find_validation_folder(root));
    datasets.validation = TRY(ImagePairsDataset::open(folder, root, changes));
  }
  datasets.train = TRY(ImagePairsDataset::open(root / "train", root, changes));
  return datasets;
}

/// A file for training, and one for validation unless the job trains without it.
template <typename Set, typename SetOptions>
Result<Datasets> open_files(const DataSource& source, const SetOptions& options, std::string_view ending) {
  const std::filesystem::path root = source.folder;
  Datasets datasets;
  if (has_validation(source.options)) {
    datasets.validation = TRY(Set::open(root / fmt::format("val{}", ending), options));
  }
  datasets.train = TRY(Set::open(root / fmt::format("train{}", ending), options));
  return datasets;
}

Cifar100Label label_option(const Options& options) {
  return options.text("labels", "fine", {"fine", "coarse"}) == "fine" ? Cifar100Label::fine : Cifar100Label::coarse;
}

}  // namespace

Result<Datasets> open_data(const DataSource& source, api::DataFormat format) {
  switch (format) {
    case api::DataFormat::synthetic:
      return open_synthetic(source);
    case api::DataFormat::idx:
      return open_in_memory(source, 1, [&](Part part) {
        return read_labeled_images(source.folder, part == Part::train ? "train" : "t10k");
      });
    case api::DataFormat::cifar10:
      return open_in_memory(source, 3, [&](Part part) { return read_cifar10(source.folder, part); });
    case api::DataFormat::cifar100:
      return open_in_memory(source, 3, [&, label = label_option(source.options)](Part part) {
        return read_cifar100(source.folder, part, label);
      });
    case api::DataFormat::images:
      return open_image_folders(source);
    case api::DataFormat::image_pairs:
      return open_image_pairs(source);
    case api::DataFormat::tokens:
      return open_files<TokenDataset>(source, read_token_options(source.options), ".bin");
    case api::DataFormat::safetensors:
      return open_files<SafetensorsDataset>(source, read_safetensors_options(source.options), ".safetensors");
  }
  return fail(ErrorKind::internal, "training.data.format is unknown");
}

}  // namespace trainyard::data
