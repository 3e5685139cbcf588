#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "api/training_spec.hpp"
#include "checkpoint/snapshot/snapshot.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"
#include "worker/logs/log_writer.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/train/held_images.hpp"
#include "worker/train/job.hpp"

namespace trainyard::train {

/// Gives rank 0's log lines and images to the log files (training.log.files), which a thread writes. Used from the
/// training thread.
class LogFiles final : public observe::ImageSink {
 public:
  /// `clock` outlives the object.
  LogFiles(std::unique_ptr<storage::Store> store, const Clock& clock, logs::WriterSettings settings,
           const snapshot::Limits& limits = {});

  /// To be called first: `step` steps are done, the last of them in `epoch` (from 1).
  void begin(std::int64_t step, std::int64_t epoch);
  /// Sets the step of the values and images that follow.
  void set_step(std::int64_t step) { step_ = step; }

  /// Adds the values of one log line, and the images since the line before.
  void add(const observe::MetricValues& values, snapshot::Over over, std::int64_t epoch);
  void log_image(std::string_view name, const torch::Tensor& image) override;
  /// As LogWriter::finish().
  [[nodiscard]] bool finish(std::chrono::milliseconds patience) { return writer_.finish(patience); }

 private:
  const Clock& clock_;
  const std::int64_t attempt_;
  const bool shows_images_;
  std::int64_t step_ = 0;
  HeldImages images_;
  logs::LogWriter writer_;
};

/// Where log files and traces are put: the store, and the beginning of each key.
struct LogPlace {
  std::unique_ptr<storage::Store> store;
  std::string folder;
};

/// The place of training.log.uri, else the folder logs under checkpoint.uri; read_job() has made sure that there is
/// one. Errors: those of open_store().
[[nodiscard]] Result<LogPlace> open_log_place(const Job& job);

}  // namespace trainyard::train
