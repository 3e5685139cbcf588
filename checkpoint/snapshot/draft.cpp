#include "checkpoint/snapshot/draft.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "checkpoint/snapshot/png.hpp"

namespace trainyard::snapshot {
namespace {

std::size_t bytes_of(const std::vector<DraftImage>& images) {
  std::size_t bytes = 0;
  for (const DraftImage& image : images) bytes += image.planes.bytes.size();
  return bytes;
}

void add_points(std::vector<Point> older, Draft& draft, std::size_t points_max) {
  older.insert(older.end(), std::move_iterator{draft.points.begin()}, std::move_iterator{draft.points.end()});
  const std::size_t lost = older.size() - std::min(older.size(), points_max);
  older.erase(older.begin(), older.begin() + static_cast<std::ptrdiff_t>(lost));
  draft.points = std::move(older);
  draft.lost_points += static_cast<std::int64_t>(lost);
}

void add_images(std::vector<DraftImage> older, Draft& draft, const Limits& limits) {
  std::size_t bytes = bytes_of(draft.images);
  for (DraftImage& image : older) {
    const bool is_there = std::any_of(draft.images.begin(), draft.images.end(),
                                      [&](const auto& other) { return other.name == image.name; });
    const std::size_t more = image.planes.bytes.size();
    if (is_there || draft.images.size() >= limits.images_max || bytes + more > limits.image_bytes_max) continue;
    bytes += more;
    draft.images.push_back(std::move(image));
  }
}

}  // namespace

Draft merge(Draft older, Draft newer, const Limits& limits) {
  newer.lost_points += older.lost_points;
  add_points(std::move(older.points), newer, limits.points_max);
  add_images(std::move(older.images), newer, limits);
  return newer;
}

Encoded encode(const Draft& draft) {
  Encoded encoded{.snapshot = {.id = draft.id,
                               .epoch = draft.epoch,
                               .time = draft.time,
                               .attempt = draft.attempt,
                               .points = draft.points,
                               .lost_points = draft.lost_points,
                               .images = {}},
                  .refused = {}};
  for (const DraftImage& image : draft.images) {
    const Picture picture = lay_out(image.planes);
    auto png = encode_png(picture);
    if (!png) {
      encoded.refused.push_back(fail(image.name, png.error()).value().message);
      continue;
    }
    encoded.snapshot.images.push_back({.name = image.name,
                                       .step = image.step,
                                       .width = picture.width,
                                       .height = picture.height,
                                       .png = std::move(*png)});
  }
  return encoded;
}

}  // namespace trainyard::snapshot
