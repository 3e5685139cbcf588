#include "worker/dist/watched_wait.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "common/clock.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// Short beside a step, and long beside the question itself.
constexpr auto device_look_interval = 200us;

}  // namespace

Result<void> wait_watched(const Watched& watched, rank::RankLink& link,
                          std::optional<std::chrono::milliseconds> deadline, std::string_view what) {
  const Instant start = std::chrono::steady_clock::now();
  while (!watched.is_done()) {
    if (const auto failure = link.group_failure()) {
      return fail(ErrorKind::cancelled, fmt::format("{} was given up: {}", what, failure->message));
    }
    const bool waits_for_others = watched.waits_for_others();
    if (deadline && std::chrono::steady_clock::now() - start >= *deadline) {
      return fail(ErrorKind::timeout,
                  fmt::format("{} was not done after {} s: {}", what,
                              std::chrono::duration_cast<std::chrono::seconds>(*deadline).count(),
                              waits_for_others ? "a rank did not take part" : "this rank's own device is not done"));
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
