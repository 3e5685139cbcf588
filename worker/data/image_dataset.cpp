#include "worker/data/image_dataset.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/check.hpp"
#include "common/word_hash.hpp"

namespace trainyard::data {

namespace {

std::uint64_t hash_tensor(std::uint64_t hash, const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return word_hash(hash, {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()});
}

/// Part of the fingerprint in checkpoints: its computation must never change.
std::string id_of(const torch::Tensor& images, const torch::Tensor& labels) {
  constexpr std::int64_t samples = 64;
  const torch::Tensor first = images.slice(0, 0, samples).cpu().to(torch::kFloat).div_(255);
  const std::uint64_t hash = hash_tensor(word_hash_start, first);
  return fmt::format("{:016x}", hash_tensor(hash, labels.slice(0, 0, samples).cpu()));
}

}  // namespace

ImageDataset::ImageDataset(torch::Tensor images, torch::Tensor labels, torch::Device device, ImageChanges changes)
    : id_{id_of(images, labels)},
      classes_{labels.numel() == 0 ? 0 : labels.max().item<std::int64_t>() + 1},
      images_{std::move(images).to(device)},
      labels_{std::move(labels).to(device)},
      changes_{std::move(changes)} {
  check(images_.dim() == 4 && images_.scalar_type() == torch::kUInt8, "images are uint8 [N, C, H, W]");
  check(labels_.dim() == 1 && labels_.scalar_type() == torch::kInt64, "labels are int64 [N]");
  check(images_.size(0) == labels_.size(0), "there are as many labels as images");
}

Batch ImageDataset::gather(const torch::Tensor& ids) const {
  const torch::Tensor places = places_of(ids);
  return batch_of(images_.index_select(0, places), places, ids);
}

Batch ImageDataset::gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const {
  const torch::Tensor places = places_of(ids);
  const torch::Tensor images = images_.index_select(0, places);
  return batch_of(crop_and_flip(images, changes_.augmentation, ids, changes_.seed, epoch), places, ids);
}

torch::Tensor ImageDataset::places_of(const torch::Tensor& ids) const {
  // A copy from pinned memory does not wait for the device.
  return images_.is_cpu() ? ids : ids.pin_memory().to(images_.device(), /*non_blocking=*/true);
}

Batch ImageDataset::batch_of(const torch::Tensor& images, const torch::Tensor& places, const torch::Tensor& ids) const {
  return {.inputs = changes_.normalization.apply(images.to(torch::kFloat).div_(255)),
          .targets = labels_.index_select(0, places),
          .ids = ids};
}

}  // namespace trainyard::data
