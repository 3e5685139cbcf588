#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "include/trainyard/data.hpp"
#include "worker/data/image_changes.hpp"
#include "worker/data/image_folder.hpp"
#include "worker/data/image_geometry.hpp"

namespace trainyard::data {

/// How a picture becomes a square sample. In validation, and in training without `random_part`: its shorter side
/// becomes `resize`, and the `size` x `size` pixels in its middle are taken.
struct PictureChanges {
  std::int64_t size = 224;
  std::int64_t resize = 256;
  std::int64_t channels = 3;
  std::optional<RandomPart> random_part;  ///< In training a random part of the picture becomes the sample.
  bool horizontal_flip = false;           ///< In training half of the samples are mirrored.
  Normalization normalization{};
  std::int64_t seed = 0;
};

/// The options of the format images. Throws InvalidJob.
[[nodiscard]] PictureChanges read_picture_changes(const DataSource& source);

/// Images of a folder, which are decoded for each batch. Any number of threads may gather.
class ImageFolderDataset final : public Dataset {
 public:
  ImageFolderDataset(ImageFolder images, PictureChanges changes);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(images_.files.size()); }
  /// inputs: float32 [B, C, size, size] on the CPU; targets: int64 [B]. Throws as load_picture().
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  [[nodiscard]] Batch gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const override;
  [[nodiscard]] std::int64_t classes() const override { return static_cast<std::int64_t>(images_.classes.size()); }
  [[nodiscard]] std::int64_t loader_threads() const override { return 2; }
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  [[nodiscard]] Batch batch_of(const torch::Tensor& ids, std::optional<std::int64_t> epoch) const;
  /// uint8 [C, size, size].
  [[nodiscard]] torch::Tensor sample(std::int64_t id, std::optional<std::int64_t> epoch) const;

  ImageFolder images_;
  PictureChanges changes_;
  std::string id_;
};

}  // namespace trainyard::data
