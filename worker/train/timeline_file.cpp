#include "worker/train/timeline_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "storage/store.hpp"

namespace trainyard::train {

std::string timeline_key(Time began, std::int64_t attempt, std::int64_t rank) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(began).time_since_epoch().count();
  return fmt::format("timeline.{:016d}.{:04d}.rank-{}.json", micros, attempt, rank);
}

TimelineFile::TimelineFile(LogPlace place, std::string key, std::int64_t rank, const Clock& clock)
    : key_{place.folder + key},
      rank_{rank},
      timeline_{[&clock] { return clock.instant(); }},
      place_{std::move(place)} {}

bool TimelineFile::finish(std::chrono::milliseconds timeout) {
  std::packaged_task<void()> task{[this] {
    const std::string text = timeline_.chrome_trace(rank_).dump();
    if (const auto put = storage::put_text(*place_.store, key_, text); !put)
      return logging::warn("no timeline of this rank's exchanges", {{"error", put.error().message}});
    logging::info("timeline stored", {{"uri", place_.store->uri_of(key_)}, {"bytes", text.size()}});
  }};
  const std::future<void> stored = task.get_future();
  thread_ = std::jthread{std::move(task)};
  return stored.wait_for(timeout) == std::future_status::ready;
}

Result<std::unique_ptr<TimelineFile>> open_timeline(const Job& job, const Clock& clock, std::int64_t attempt,
                                                    std::int64_t rank) {
  if (!job.training.strategy.timeline) return nullptr;
  auto place = TRY(open_log_place(job));
  return std::make_unique<TimelineFile>(std::move(place), timeline_key(clock.now(), attempt, rank), rank, clock);
}

}  // namespace trainyard::train
