#pragma once

#include <torch/types.h>

#include <string>

#include "include/trainyard/data.hpp"

namespace trainyard::data {

/// Images and their classes, kept in memory as bytes. A batch takes one index_select and one conversion, and no loader
/// process.
class ImageDataset final : public Dataset {
 public:
  /// images: uint8 [N, C, H, W]; labels: int64 [N]. Batches come on `device`, inputs as float32 in [0, 1].
  ImageDataset(torch::Tensor images, torch::Tensor labels, torch::Device device = torch::kCPU);

  [[nodiscard]] std::int64_t size() const override { return images_.size(0); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  /// A checksum of the first images and labels: independent of the files' folder and of the device.
  [[nodiscard]] std::string id() const override { return id_; }

  [[nodiscard]] const torch::Tensor& images() const { return images_; }
  [[nodiscard]] const torch::Tensor& labels() const { return labels_; }

 private:
  std::string id_;
  torch::Tensor images_;
  torch::Tensor labels_;
};

}  // namespace trainyard::data
