#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/snapshot/draft.hpp"
#include "checkpoint/snapshot/recorder.hpp"
#include "common/clock.hpp"
#include "storage/store.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::train {

/// Gathers on rank 0 what a training shows between two snapshots, and has it written while training goes on. Used from
/// the training thread.
class SnapshotTaker final : public ImageSink {
 public:
  /// `clock` outlives it.
  SnapshotTaker(std::unique_ptr<storage::Store> store, const Clock& clock, std::int64_t attempt,
                snapshot::Limits limits = {});

  /// Before anything is shown: this run has claimed `generation`, and goes on after `step` steps.
  void begin(std::int64_t generation, std::int64_t step);
  /// What is shown from now on is step `step`'s.
  void set_step(std::int64_t step) { step_ = step; }

  void add(const observe::MetricValues& values, snapshot::Over over);
  /// Keeps a copy on the image's device, in place of the one of that name before. One for which there is no room is
  /// left out, which is told once.
  void log_image(std::string_view name, const torch::Tensor& image) override;

  /// Whether so much has come that the next snapshot should not be waited for.
  [[nodiscard]] bool is_full() const;
  /// Copies to the host what has come since the last snapshot, and has it written as that of the present step. Where
  /// nothing has come there is none. `epoch`: that the step belongs to, from 1.
  void take(std::int64_t epoch);
  /// As Recorder::finish().
  [[nodiscard]] bool finish(std::chrono::milliseconds patience) { return recorder_.finish(patience); }

 private:
  struct Held {
    std::int64_t step = 0;
    torch::Tensor bytes;  // uint8 [N, C, H, W], on the device that it came from.
  };

  void warn_of_no_room(std::string_view name);

  const Clock& clock_;
  const snapshot::Limits limits_;
  const std::int64_t attempt_;
  std::int64_t generation_ = 0;
  std::int64_t step_ = 0;
  std::int64_t taken_step_ = -1;  // Of the last snapshot.
  std::vector<snapshot::Point> points_;
  std::map<std::string, Held, std::less<>> images_;
  std::size_t image_bytes_ = 0;  // Of images_.
  bool has_warned_of_no_room_ = false;
  snapshot::Recorder recorder_;
};

}  // namespace trainyard::train
