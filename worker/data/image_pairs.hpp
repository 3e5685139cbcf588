#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/image_changes.hpp"

namespace trainyard::data {

/// How a picture of several panels, side by side and equally wide, becomes a sample. All its panels are changed alike.
struct PanelChanges {
  std::int64_t panels = 2;
  std::int64_t input = 0;        ///< The panel that is the input, from the left. The others are the targets.
  std::int64_t size = 256;       ///< Each side of a sample's panels.
  std::int64_t resize = 256;     ///< Each side of a panel before the `size` x `size` pixels are taken: at random in
                                 ///< training, in its middle in validation.
  bool horizontal_flip = false;  ///< In training half of the samples are mirrored.
  std::int64_t channels = 3;
  Normalization normalization{};
  std::int64_t seed = 0;
};

/// The options of the format imagePairs. Throws InvalidJob.
[[nodiscard]] PanelChanges read_panel_changes(const DataSource& source);

/// Pictures whose panels belong together, as those of pix2pix. They are decoded for each batch. Any number of threads
/// may gather.
class ImagePairsDataset final : public Dataset {
 public:
  /// The .jpg, .jpeg and .png files in `folder`, which is in `root`. Errors of list_images(); invalid: there is none.
  [[nodiscard]] static Result<std::unique_ptr<ImagePairsDataset>> open(const std::filesystem::path& folder,
                                                                       const std::filesystem::path& root,
                                                                       const PanelChanges& changes);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  /// inputs: float32 [B, C, size, size]; targets: float32 [B, panels - 1, C, size, size]; both on the CPU. Throws as
  /// load_picture(), and InvalidJob for a picture that cannot be divided into panels.
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  [[nodiscard]] Batch gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t loader_threads() const override { return 2; }
  /// A checksum of the files' names.
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  ImagePairsDataset(std::filesystem::path folder, std::vector<std::string> files, const PanelChanges& changes);
  [[nodiscard]] Batch batch_of(const torch::Tensor& ids, std::optional<std::int64_t> epoch) const;
  /// uint8 [panels, C, size, size], the input first.
  [[nodiscard]] torch::Tensor panels_of(std::int64_t id, std::optional<std::int64_t> epoch) const;

  std::filesystem::path folder_;
  std::vector<std::string> files_;
  PanelChanges changes_;
  std::string id_;
};

}  // namespace trainyard::data
