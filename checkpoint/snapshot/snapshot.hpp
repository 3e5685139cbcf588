#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"

/// A snapshot is rank 0's record of a training: metrics with their history, and images. Each snapshot is one object,
/// complete or absent, never overwritten; checkpoint/format/layout.hpp has its key.
namespace trainyard::snapshot {

/// The snapshot after `step` steps, of the run of generation `generation`.
using SnapshotId = checkpoint::CheckpointId;

/// Over what a metric's value was taken.
enum class Over {
  steps,       ///< The steps since the value before, as in the log's progress lines.
  epoch,       ///< The epoch that ended with the step.
  validation,  ///< The validation set, after the step.
};

/// "steps", "epoch" or "validation".
[[nodiscard]] std::string_view to_string(Over over);

/// One value of a metric, over all ranks, after `step` steps. The value may be infinite or not a number.
struct Point {
  std::string name;
  Over over = Over::steps;
  std::int64_t step = 0;
  double value = 0.0;
  bool operator==(const Point&) const = default;
};

struct Image {
  std::string name;
  std::int64_t step = 0;  ///< The step that produced it, or after which the validation did.
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string png;  ///< A PNG file's bytes.
  bool operator==(const Image&) const = default;
};

struct Snapshot {
  SnapshotId id;
  std::int64_t epoch = 1;  ///< The epoch of the last step, from 1.
  Time time;
  std::int64_t attempt = 1;
  std::vector<Point> points;        ///< All points since the snapshot before, in the order in which they came.
  std::int64_t dropped_points = 0;  ///< The number of points for which there was no room while the store failed.
  std::vector<Image> images;        ///< The last image of each name since the snapshot before.
  bool operator==(const Snapshot&) const = default;
};

/// JSON with a checksum of itself. Times are cut to seconds, and bytes that are no UTF-8 replaced.
[[nodiscard]] std::string to_text(const Snapshot& snapshot);
/// ErrorKind::corrupt for a text that to_text() did not write, invalid for a newer format.
[[nodiscard]] Result<Snapshot> parse_snapshot(std::string_view text);

}  // namespace trainyard::snapshot
