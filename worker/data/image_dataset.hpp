#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "include/trainyard/data.hpp"
#include "worker/data/image_changes.hpp"

namespace trainyard::data {

/// How images in memory become a batch.
struct ImageChanges {
  Augmentation augmentation{};  ///< In gather_in_epoch() alone.
  Normalization normalization{};
  std::int64_t seed = 0;  ///< Seed of the augmentation.
};

/// Images and their classes, kept in memory as bytes. A batch takes one index_select and one conversion, and no loader
/// process.
class ImageDataset final : public Dataset {
 public:
  /// images: uint8 [N, C, H, W]; labels: int64 [N]. Batches come on `device`, inputs as float32 in [0, 1] before they
  /// are normalised.
  ImageDataset(torch::Tensor images, torch::Tensor labels, torch::Device device = torch::kCPU,
               ImageChanges changes = {});

  [[nodiscard]] std::int64_t size() const override { return images_.size(0); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  [[nodiscard]] Batch gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const override;
  /// A checksum of the first images and labels: independent of the files' folder and of the device.
  [[nodiscard]] std::string id() const override { return id_; }

  /// One more than the largest label.
  [[nodiscard]] std::int64_t classes() const override { return classes_; }

  [[nodiscard]] const torch::Tensor& images() const { return images_; }
  [[nodiscard]] const torch::Tensor& labels() const { return labels_; }

 private:
  /// `ids` on the images' device.
  [[nodiscard]] torch::Tensor places_of(const torch::Tensor& ids) const;
  [[nodiscard]] Batch batch_of(const torch::Tensor& images, const torch::Tensor& places,
                               const torch::Tensor& ids) const;

  std::string id_;
  std::int64_t classes_;
  torch::Tensor images_;
  torch::Tensor labels_;
  ImageChanges changes_;
};

}  // namespace trainyard::data
