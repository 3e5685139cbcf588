#include "worker/data/image_dataset.hpp"

#include <utility>

#include "common/check.hpp"

namespace trainyard::data {

ImageDataset::ImageDataset(torch::Tensor images, torch::Tensor labels, torch::Device device)
    : images_{std::move(images).to(device)}, labels_{std::move(labels).to(device)} {
  check(images_.dim() == 4 && images_.scalar_type() == torch::kUInt8, "images are uint8 [N, C, H, W]");
  check(labels_.dim() == 1 && labels_.scalar_type() == torch::kInt64, "labels are int64 [N]");
  check(images_.size(0) == labels_.size(0), "there are as many labels as images");
}

Batch ImageDataset::gather(const torch::Tensor& ids) const {
  const torch::Tensor places = ids.to(images_.device());
  return {.inputs = images_.index_select(0, places).to(torch::kFloat).div_(255),
          .targets = labels_.index_select(0, places),
          .ids = ids};
}

}  // namespace trainyard::data
