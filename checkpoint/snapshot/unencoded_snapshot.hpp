#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/snapshot/picture.hpp"
#include "checkpoint/snapshot/snapshot.hpp"

/// Snapshots before they are written. Pure.
namespace trainyard::snapshot {

/// Limits of one unencoded snapshot in memory.
struct Limits {
  std::size_t points_max = 100'000;                    ///< Points that wait while the store fails: some 10 MiB.
  std::size_t images_max = 32;                         ///< Images, by name.
  std::size_t image_bytes_max = std::size_t{8} << 20;  ///< All images together, before they are encoded.
};

struct UnencodedImage {
  std::string name;
  std::int64_t step = 0;
  Planes planes;
  bool operator==(const UnencodedImage&) const = default;
};

/// A snapshot whose images are still pixels.
struct UnencodedSnapshot {
  SnapshotId id;
  std::int64_t epoch = 1;
  Time time;
  std::int64_t attempt = 1;
  std::vector<Point> points;
  std::int64_t dropped_points = 0;
  std::vector<UnencodedImage> images;
  bool operator==(const UnencodedSnapshot&) const = default;
};

/// Adds to `newer` what `older` holds, which could not be written: its points, of which the oldest are dropped beyond
/// the limit, and its images whose names `newer` lacks, as far as there is room.
[[nodiscard]] UnencodedSnapshot merge(UnencodedSnapshot older, UnencodedSnapshot newer, const Limits& limits);

struct EncodedSnapshot {
  Snapshot snapshot;
  std::vector<std::string> image_errors;  ///< One error of encode_png() for each image that is left out.
};

/// Encodes the images.
[[nodiscard]] EncodedSnapshot encode(const UnencodedSnapshot& unencoded);

}  // namespace trainyard::snapshot
