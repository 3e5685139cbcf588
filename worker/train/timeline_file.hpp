#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/strategy/exchange_timeline.hpp"
#include "worker/train/job.hpp"
#include "worker/train/log_files.hpp"

namespace trainyard::train {

/// The key of a rank's timeline in the folder of log files, as trace_key().
[[nodiscard]] std::string timeline_key(Time began, std::int64_t attempt, std::int64_t rank);

/// A rank's timeline of exchanges (training.strategy.timeline), which is put into a store at the end of the attempt. A
/// failure is logged and changes nothing else. Used from the training thread.
class TimelineFile {
 public:
  /// `clock` outlives the object.
  TimelineFile(LogPlace place, std::string key, std::int64_t rank, const Clock& clock);
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;
  /// Waits until the timeline is stored, or has failed.
  ~TimelineFile() = default;

  [[nodiscard]] strategy::ExchangeTimeline& timeline() { return timeline_; }
  /// Stores what was recorded, in the background, and waits up to `timeout` for it. To be called once, when nothing is
  /// recorded any more. True when it is stored or has failed.
  [[nodiscard]] bool finish(std::chrono::milliseconds timeout);

 private:
  const std::string key_;
  const std::int64_t rank_;
  strategy::ExchangeTimeline timeline_;
  LogPlace place_;  // From finish() on only the thread uses it.
  std::jthread thread_;
};

/// nullptr when the job asks for no timeline. Errors: those of open_log_place().
[[nodiscard]] Result<std::unique_ptr<TimelineFile>> open_timeline(const Job& job, const Clock& clock,
                                                                  std::int64_t attempt, std::int64_t rank);

}  // namespace trainyard::train
