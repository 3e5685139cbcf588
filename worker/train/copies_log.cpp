#include "worker/train/copies_log.hpp"

#include <chrono>
#include <utility>

#include "common/logging.hpp"

namespace trainyard::train {
namespace {

double seconds_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>{duration}.count();
}

}  // namespace

void CopiesLog::saved(std::int64_t step, const Times& times) {
  const auto outage = std::exchange(outage_, std::nullopt);
  if (!speaks_) return;
  if (outage) {
    logging::info(
        "local checkpoints are saved again",
        {{"step", step}, {"failedSaves", outage->failures()}, {"seconds", seconds_of(outage->duration(times.now))}});
  }
  logging::info("local checkpoint saved",
                {{"step", step}, {"seconds", times.seconds}, {"stallSeconds", times.stall_seconds}});
}

void CopiesLog::failed(std::int64_t step, const std::string& error, Instant now) {
  if (!outage_) outage_.emplace();
  if (!outage_->add_failure(now) || !speaks_) return;
  logging::warn("no local checkpoint: saving failed; training and the checkpoints of checkpoint.uri go on",
                {{"step", step},
                 {"error", error},
                 {"failedSaves", outage_->failures()},
                 {"seconds", seconds_of(outage_->duration(now))}});
}

}  // namespace trainyard::train
