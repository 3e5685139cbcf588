#include "worker/train/snapshot_taker.hpp"

#include <utility>

#include "common/logging.hpp"

namespace trainyard::train {
namespace {

// About the most points that still make a small object, of some hundred KiB.
constexpr std::size_t points_before_full = 10'000;

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

SnapshotTaker::SnapshotTaker(std::unique_ptr<storage::Store> store, const Clock& clock, std::int64_t attempt,
                             snapshot::Limits limits)
    : clock_{clock}, limits_{limits}, attempt_{attempt}, recorder_{std::move(store), clock, limits} {}

void SnapshotTaker::begin(std::int64_t generation, std::int64_t step) {
  generation_ = generation;
  step_ = step;
}

void SnapshotTaker::add(const observe::MetricValues& values, snapshot::Over over) {
  for (const auto& [name, value] : values) {
    points_.push_back({.name = name, .over = over, .step = step_, .value = value});
  }
}

void SnapshotTaker::log_image(std::string_view name, const torch::Tensor& image) {
  if (const auto before = images_.find(name); before != images_.end()) {
    image_bytes_ -= before->second.bytes.nbytes();
    images_.erase(before);
  }
  const auto bytes = static_cast<std::size_t>(image.numel());
  if (images_.size() >= limits_.images_max || image_bytes_ + bytes > limits_.image_bytes_max)
    return warn_of_no_room(name);
  images_.emplace(std::string{name}, Held{.step = step_, .bytes = observe::to_image_bytes(image)});
  image_bytes_ += bytes;
}

bool SnapshotTaker::is_full() const {
  return points_.size() >= points_before_full;
}

void SnapshotTaker::take(std::int64_t epoch) {
  if ((points_.empty() && images_.empty()) || step_ <= taken_step_) return;
  snapshot::UnencodedSnapshot unencoded{.id = {.step = step_, .generation = generation_},
                                        .epoch = epoch,
                                        .time = clock_.now(),
                                        .attempt = attempt_,
                                        .points = std::exchange(points_, {}),
                                        .dropped_points = 0,
                                        .images = {}};
  for (const auto& [name, held] : images_) {
    unencoded.images.push_back({.name = name, .step = held.step, .planes = to_planes(held.bytes)});
  }
  images_.clear();
  image_bytes_ = 0;
  taken_step_ = step_;
  recorder_.record(std::move(unencoded));
}

void SnapshotTaker::warn_of_no_room(std::string_view name) {
  if (std::exchange(has_warned_of_no_room_, true)) return;
  logging::warn(
      "an image is skipped: the snapshot has no room for it; later ones are not logged",
      {{"image", name}, {"step", step_}, {"imagesMax", limits_.images_max}, {"bytesMax", limits_.image_bytes_max}});
}

}  // namespace trainyard::train
