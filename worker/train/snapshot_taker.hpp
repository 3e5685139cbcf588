#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "checkpoint/snapshot/recorder.hpp"
#include "checkpoint/snapshot/unencoded_snapshot.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/held_images.hpp"

namespace trainyard::train {

/// Collects metrics and images on rank 0 between two snapshots, and writes snapshots in the background. Used from the
/// training thread.
class SnapshotTaker final : public observe::ImageSink {
 public:
  /// `clock` outlives the object.
  SnapshotTaker(std::unique_ptr<storage::Store> store, const Clock& clock, std::int64_t attempt,
                snapshot::Limits limits = {});

  /// To be called first: this run has claimed `generation`, and `step` steps are done.
  void begin(std::int64_t generation, std::int64_t step);
  /// Sets the step of the metrics and images that follow.
  void set_step(std::int64_t step) { step_ = step; }

  void add(const observe::MetricValues& values, snapshot::Over over);
  /// As HeldImages::add().
  void log_image(std::string_view name, const torch::Tensor& image) override;

  /// True when there are so many points that a snapshot should be taken before it is due.
  [[nodiscard]] bool is_full() const;
  /// Makes a snapshot of the present step: copies what was collected since the last one to the host, and starts to
  /// write it. Does nothing when nothing was collected. `epoch`: the step's epoch, from 1.
  void take(std::int64_t epoch);
  /// As Recorder::finish().
  [[nodiscard]] bool finish(std::chrono::milliseconds patience) { return recorder_.finish(patience); }

 private:
  const Clock& clock_;
  const std::int64_t attempt_;
  std::int64_t generation_ = 0;
  std::int64_t step_ = 0;
  std::int64_t taken_step_ = -1;  // Step of the last snapshot.
  std::vector<snapshot::Point> points_;
  HeldImages images_;
  snapshot::Recorder recorder_;
};

}  // namespace trainyard::train
