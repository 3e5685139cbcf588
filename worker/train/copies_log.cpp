#include "worker/train/copies_log.hpp"

#include <utility>

#include "common/logging.hpp"
#include "worker/train/log_fields.hpp"

namespace trainyard::train {

void CopiesLog::saved(std::int64_t step, const Times& times) {
  const auto outage = std::exchange(outage_, std::nullopt);
  if (!speaks_) return;
  if (outage) {
    logging::info(
        "local checkpoints are saved again",
        {{"step", step}, {"failedSaves", outage->failures()}, {"seconds", to_seconds(outage->duration(times.now))}});
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
                 {"seconds", to_seconds(outage_->duration(now))}});
}

}  // namespace trainyard::train
