#include "worker/train/snapshot_taker.hpp"

#include <utility>

namespace trainyard::train {
namespace {

// About the most points that still make a small object, of some hundred KiB.
constexpr std::size_t points_before_full = 10'000;

}  // namespace

SnapshotTaker::SnapshotTaker(std::unique_ptr<storage::Store> store, const Clock& clock, std::int64_t attempt,
                             snapshot::Limits limits)
    : clock_{clock}, attempt_{attempt}, images_{"snapshot", limits}, recorder_{std::move(store), clock, limits} {}

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
  images_.add(name, image, step_);
}

bool SnapshotTaker::is_full() const {
  return points_.size() >= points_before_full;
}

void SnapshotTaker::take(std::int64_t epoch) {
  if ((points_.empty() && images_.is_empty()) || step_ <= taken_step_) return;
  snapshot::UnencodedSnapshot unencoded{.id = {.step = step_, .generation = generation_},
                                        .epoch = epoch,
                                        .time = clock_.now(),
                                        .attempt = attempt_,
                                        .points = std::exchange(points_, {}),
                                        .dropped_points = 0,
                                        .images = images_.take()};
  taken_step_ = step_;
  recorder_.record(std::move(unencoded));
}

}  // namespace trainyard::train
