#include "worker/data/image_pairs.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "common/try.hpp"
#include "common/word_hash.hpp"
#include "worker/data/decode_image.hpp"
#include "worker/data/image_geometry.hpp"
#include "worker/data/list_folder.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t panels_max = 16;
constexpr std::int64_t panel_side_max = 4096;

}  // namespace

PanelChanges read_panel_changes(const DataSource& source) {
  const Options& options = source.options;
  PanelChanges changes;
  changes.panels = options.integer("panels", 2, {.min = 2, .max = panels_max});
  changes.input = options.integer("input", 0, {.min = 0, .max = changes.panels - 1});
  changes.size = options.integer("size", 256, {.min = 1, .max = panel_side_max});
  changes.resize = options.integer("resize", changes.size, {.min = changes.size, .max = 2 * panel_side_max});
  changes.horizontal_flip = options.boolean("horizontalFlip", false);
  changes.channels = read_channels(options);
  changes.normalization = read_normalization(options, changes.channels, torch::kCPU);
  changes.seed = source.seed;
  return changes;
}

Result<std::unique_ptr<ImagePairsDataset>> ImagePairsDataset::open(const std::filesystem::path& folder,
                                                                   const std::filesystem::path& root,
                                                                   const PanelChanges& changes) {
  auto files = TRY(list_images(folder, root));
  if (files.empty())
    return fail(ErrorKind::invalid, fmt::format("{} has no .jpg, .jpeg or .png file", folder.string()));
  return std::unique_ptr<ImagePairsDataset>{new ImagePairsDataset{folder, std::move(files), changes}};
}

ImagePairsDataset::ImagePairsDataset(std::filesystem::path folder, std::vector<std::string> files,
                                     const PanelChanges& changes)
    : folder_{std::move(folder)},
      files_{std::move(files)},
      changes_{changes},
      id_{fmt::format("{:016x}", hash_of_names(word_hash_start, files_))} {}

Batch ImagePairsDataset::gather(const torch::Tensor& ids) const {
  return batch_of(ids, std::nullopt);
}

Batch ImagePairsDataset::gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const {
  return batch_of(ids, epoch);
}

Batch ImagePairsDataset::batch_of(const torch::Tensor& ids, std::optional<std::int64_t> epoch) const {
  std::vector<torch::Tensor> samples;
  for (std::int64_t place = 0; place < ids.size(0); ++place)
    samples.push_back(panels_of(ids[place].item<std::int64_t>(), epoch));
  const torch::Tensor panels = changes_.normalization.apply(torch::stack(samples).to(torch::kFloat).div_(255));
  return {.inputs = panels.select(1, 0).contiguous(), .targets = panels.slice(1, 1).contiguous(), .ids = ids};
}

torch::Tensor ImagePairsDataset::panels_of(std::int64_t id, std::optional<std::int64_t> epoch) const {
  const std::string& file = files_.at(static_cast<std::size_t>(id));
  const torch::Tensor picture = load_picture(folder_ / file, changes_.channels);
  const ImageSize whole = size_of(picture);
  if (whole.width % changes_.panels != 0) {
    throw InvalidJob{fmt::format("the picture {} is {} pixels wide, which {} equal panels are not",
                                 (folder_ / file).string(), whole.width, changes_.panels)};
  }
  const ImageSize resized_size{.width = changes_.resize, .height = changes_.resize};
  const ImageSize square{.width = changes_.size, .height = changes_.size};
  SampleRandom random{changes_.seed, epoch.value_or(0), id};
  const std::int64_t top = random.below(changes_.resize - changes_.size + 1);
  const std::int64_t left = random.below(changes_.resize - changes_.size + 1);
  const bool is_mirrored = random.coin() && changes_.horizontal_flip && epoch;
  const Box box = epoch ? Box{.left = left, .top = top, .size = square} : middle_part(resized_size, square);
  const std::int64_t width = whole.width / changes_.panels;
  std::vector<torch::Tensor> panels;
  for (std::int64_t number = 0; number < changes_.panels; ++number) {
    const torch::Tensor panel = picture.slice(2, number * width, (number + 1) * width);
    const torch::Tensor part = part_of(resized(panel, resized_size), box);
    const auto place = number == changes_.input ? panels.begin() : panels.end();
    // A copy, so that the resized panel is freed before the next one is made.
    panels.insert(place, is_mirrored ? part.flip(2) : part.clone());
  }
  return torch::stack(panels);
}

}  // namespace trainyard::data
