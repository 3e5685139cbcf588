#include "worker/dist/watched_wait.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "common/clock.hpp"
#include "common/logging.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// Short beside a step, and long beside the question itself.
constexpr auto device_look_interval = 200us;

/// Longer than the ranks of a healthy job wait for each other. A shorter deadline is announced halfway.
constexpr std::chrono::milliseconds notice_after = 1min;

std::int64_t to_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

Result<void> wait_watched(const Watched& watched, rank::RankLink& link,
                          std::optional<std::chrono::milliseconds> deadline, std::string_view what) {
  const Instant start = std::chrono::steady_clock::now();
  const auto until_notice = deadline ? std::min(notice_after, *deadline / 2) : notice_after;
  bool has_noticed = false;
  while (!watched.is_done()) {
    if (const auto failure = link.group_failure()) {
      return fail(ErrorKind::cancelled, fmt::format("{} was given up: {}", what, failure->message));
    }
    const bool waits_for_others = watched.waits_for_others();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (deadline && waited >= *deadline) {
      return fail(ErrorKind::timeout,
                  fmt::format("{} was not done after {} s: {}", what, to_seconds(*deadline),
                              waits_for_others ? "a rank did not take part; the logs of the ranks say what each waited "
                                                 "for, which must be the same on all"
                                               : "this rank's own device is not done"));
    }
    if (waits_for_others && !has_noticed && waited >= until_notice) {
      has_noticed = true;
      logging::warn("this rank waits for another; where no rank is slow, they do not call the same collectives",
                    {{"waitsIn", what}, {"seconds", to_seconds(until_notice)}});
    }
    if (waits_for_others) link.beat();
  }
  return {};
}

bool ask_device(const std::function<bool()>& ask) {
  if (ask()) return true;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock{mutex};
  never.wait_for(lock, device_look_interval, [] { return false; });
  return ask();
}

c10::Event mark_queue(c10::Device device) {
  c10::Event mark{device.type()};
  mark.record(c10::impl::VirtualGuardImpl{device.type()}.getStream(device));
  return mark;
}

tl::unexpected<Error> lost_collective(std::string_view what, const std::string& why) {
  return fail(ErrorKind::unavailable, fmt::format("{} failed: {}", what, why));
}

}  // namespace trainyard::dist
