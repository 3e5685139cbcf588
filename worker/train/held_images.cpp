#include "worker/train/held_images.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/logging.hpp"
#include "worker/observe/images.hpp"

namespace trainyard::train {
namespace {

// Waits for the device.
snapshot::Planes to_planes(const torch::Tensor& bytes) {
  const torch::Tensor host = bytes.cpu();
  const auto* begin = host.data_ptr<std::uint8_t>();
  return {.images = host.size(0),
          .channels = host.size(1),
          .height = host.size(2),
          .width = host.size(3),
          .bytes = {begin, begin + host.numel()}};
}

}  // namespace

void HeldImages::add(std::string_view name, const torch::Tensor& image, std::int64_t step) {
  if (const auto before = images_.find(name); before != images_.end()) {
    image_bytes_ -= before->second.bytes.nbytes();
    images_.erase(before);
  }
  const auto bytes = static_cast<std::size_t>(image.numel());
  if (images_.size() >= limits_.images_max || image_bytes_ + bytes > limits_.image_bytes_max)
    return warn_of_no_room(name, step);
  images_.emplace(std::string{name}, Held{.step = step, .bytes = observe::to_image_bytes(image)});
  image_bytes_ += bytes;
}

std::vector<snapshot::UnencodedImage> HeldImages::take() {
  std::vector<snapshot::UnencodedImage> taken;
  for (const auto& [name, held] : images_) {
    taken.push_back({.name = name, .step = held.step, .planes = to_planes(held.bytes)});
  }
  images_.clear();
  image_bytes_ = 0;
  return taken;
}

void HeldImages::warn_of_no_room(std::string_view name, std::int64_t step) {
  if (std::exchange(has_warned_of_no_room_, true)) return;
  logging::warn(
      fmt::format("an image is skipped: the {} has no room for it; later ones are not logged", place_),
      {{"image", name}, {"step", step}, {"imagesMax", limits_.images_max}, {"bytesMax", limits_.image_bytes_max}});
}

}  // namespace trainyard::train
