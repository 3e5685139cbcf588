#include "checkpoint/snapshot/unencoded_snapshot.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "checkpoint/snapshot/picture.hpp"

namespace trainyard::snapshot {
namespace {

std::size_t bytes_of(const std::vector<UnencodedImage>& images) {
  std::size_t bytes = 0;
  for (const UnencodedImage& image : images) bytes += image.planes.bytes.size();
  return bytes;
}

void add_points(std::vector<Point> older, UnencodedSnapshot& unencoded, std::size_t points_max) {
  older.insert(older.end(), std::move_iterator{unencoded.points.begin()}, std::move_iterator{unencoded.points.end()});
  const std::size_t lost = older.size() - std::min(older.size(), points_max);
  older.erase(older.begin(), older.begin() + static_cast<std::ptrdiff_t>(lost));
  unencoded.points = std::move(older);
  unencoded.dropped_points += static_cast<std::int64_t>(lost);
}

void add_images(std::vector<UnencodedImage> older, UnencodedSnapshot& unencoded, const Limits& limits) {
  std::size_t bytes = bytes_of(unencoded.images);
  for (UnencodedImage& image : older) {
    const bool is_there = std::any_of(unencoded.images.begin(), unencoded.images.end(),
                                      [&](const auto& other) { return other.name == image.name; });
    const std::size_t more = image.planes.bytes.size();
    if (is_there || unencoded.images.size() >= limits.images_max || bytes + more > limits.image_bytes_max) continue;
    bytes += more;
    unencoded.images.push_back(std::move(image));
  }
}

}  // namespace

UnencodedSnapshot merge(UnencodedSnapshot older, UnencodedSnapshot newer, const Limits& limits) {
  newer.dropped_points += older.dropped_points;
  add_points(std::move(older.points), newer, limits.points_max);
  add_images(std::move(older.images), newer, limits);
  return newer;
}

EncodedSnapshot encode(const UnencodedSnapshot& unencoded) {
  EncodedSnapshot encoded{.snapshot = {.id = unencoded.id,
                                       .epoch = unencoded.epoch,
                                       .time = unencoded.time,
                                       .attempt = unencoded.attempt,
                                       .points = unencoded.points,
                                       .dropped_points = unencoded.dropped_points,
                                       .images = {}},
                          .image_errors = {}};
  for (const UnencodedImage& image : unencoded.images) {
    const Picture picture = lay_out(image.planes);
    auto png = encode_png(picture);
    if (!png) {
      encoded.image_errors.push_back(fail(image.name, png.error()).value().message);
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
