#include "worker/train/start_wait.hpp"

#include <chrono>
#include <memory>
#include <thread>

#include "api/contract.hpp"
#include "common/logging.hpp"
#include "common/outage.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

constexpr auto stop_look_interval = 100ms;

}  // namespace

Result<std::chrono::milliseconds> start_patience_of(const rank::Environment& environment) {
  const auto otherwise = std::chrono::seconds{checkpoint::default_start_patience}.count();
  return rank::number_or(environment, "TRAINYARD_STORAGE_PATIENCE_SECONDS", {.min = 0, .max = 86'400}, otherwise)
      .map([](std::int64_t seconds) { return std::chrono::milliseconds{std::chrono::seconds{seconds}}; });
}

checkpoint::StartPatience start_patience(std::chrono::milliseconds duration, rank::RankLink& link, const Clock& clock) {
  return {.duration = duration,
          .wait = [&link, &clock, outage = std::make_shared<Outage>()](std::chrono::milliseconds pause,
                                                                       const Error& error) {
            if (outage->add_failure(clock.instant()))
              logging::warn("the start cannot go on yet: it is tried again", {{"error", error.message}});
            rank::RankProgress progress;
            progress.phase = "Loading";
            progress.waiting_for = "another try of the start, after: " + error.message;
            link.report(progress);
            const Instant end = clock.instant() + pause;
            while (clock.instant() < end) {
              if (link.group_failure()) return false;
              if (link.is_stop_requested()) {
                link.exit({.exit_code = contract::exit_preempted,
                           .reason = "Preempted",
                           .message = "stopped as asked while the start was tried again; nothing was trained yet",
                           .culprit = {}});
              }
              std::this_thread::sleep_for(stop_look_interval);
              link.beat();
            }
            return true;
          }};
}

}  // namespace trainyard::train
