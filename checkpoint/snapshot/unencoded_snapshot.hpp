#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/snapshot/picture.hpp"
#include "checkpoint/snapshot/snapshot.hpp"

/// Snapshots on their way to the store. Pure.
namespace trainyard::snapshot {

/// How much of a training is held in memory at most.
struct Limits {
  std::size_t points_max = 100'000;  ///< Of a snapshot that could not be written for long: some 10 MiB.
  std::size_t images_max = 32;       ///< Of a snapshot, by name.
  std::size_t image_bytes_max = std::size_t{8} << 20;  ///< Of all of these together, before they are encoded.
};

struct UnencodedImage {
  std::string name;
  std::int64_t step = 0;
  Planes planes;
  bool operator==(const UnencodedImage&) const = default;
};

/// A snapshot whose images are still as they came from the device.
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

/// `newer` with what `older` holds, which was not written: all of its points, but for the oldest where they are too
/// many, and those of its images whose names `newer` does not have, as far as there is room.
[[nodiscard]] UnencodedSnapshot merge(UnencodedSnapshot older, UnencodedSnapshot newer, const Limits& limits);

struct EncodedSnapshot {
  Snapshot snapshot;
  std::vector<std::string> image_errors;  ///< What encode_png() said of images that are left out, by name.
};

/// The snapshot that is written.
[[nodiscard]] EncodedSnapshot encode(const UnencodedSnapshot& unencoded);

}  // namespace trainyard::snapshot
