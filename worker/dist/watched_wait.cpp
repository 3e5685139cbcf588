#include "worker/dist/watched_wait.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/clock.hpp"
#include "common/logging.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// Short beside a step, and long beside the question itself.
constexpr auto device_look_interval = 200us;

/// Longer than the ranks of a healthy job wait for each other in a step. With a shorter deadline: half of it.
constexpr std::chrono::milliseconds notice_after = 1min;

/// After this time the launcher is told of the wait. With a short deadline: a quarter of it.
constexpr std::chrono::milliseconds long_wait_after = 2min;

std::int64_t to_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

/// Tells the launcher of a long wait, and takes it back at the wait's end.
class LongWait {
 public:
  explicit LongWait(rank::RankLink& link) : link_{link} {}
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;
  ~LongWait() { end(); }

  void tell(std::string_view what) {
    if (!std::exchange(is_told_, true)) link_.set_long_wait(what);
  }
  void end() {
    if (std::exchange(is_told_, false)) link_.set_long_wait("");
  }

 private:
  rank::RankLink& link_;
  bool is_told_ = false;
};

}  // namespace

Result<void> wait_watched(const Watched& watched, rank::RankLink& link,
                          std::optional<std::chrono::milliseconds> deadline, std::string_view what) {
  const Instant start = std::chrono::steady_clock::now();
  const auto until_notice = deadline ? std::min(notice_after, *deadline / 2) : notice_after;
  std::optional<Instant> waits_since;  // for others without a break; nothing while this rank's own work is not done
  const auto until_told = deadline ? std::min(long_wait_after, *deadline / 4) : long_wait_after;
  bool has_noticed = !link.is_of_training();
  LongWait long_wait{link};
  while (!watched.is_done()) {
    if (const auto failure = link.group_failure()) {
      return fail(ErrorKind::cancelled, fmt::format("{} was given up: {}", what, failure->message));
    }
    const bool waits_for_others = watched.waits_for_others();
    const Instant now = std::chrono::steady_clock::now();
    if (!waits_for_others) {
      waits_since.reset();
      long_wait.end();
    }
    if (waits_for_others && !waits_since) waits_since = now;
    if (waits_since && now - *waits_since >= until_told) long_wait.tell(what);
    if (waits_since && !has_noticed && now - *waits_since >= until_notice) {
      has_noticed = true;
      logging::warn("this rank waits for another: that one is slow, or the ranks call different collectives",
                    {{"waitsIn", what}, {"seconds", to_seconds(until_notice)}});
    }
    if (deadline && now - start >= *deadline) {
      return fail(ErrorKind::timeout,
                  fmt::format("{} was not done after {} s: {}", what, to_seconds(*deadline),
                              waits_for_others ? "a rank did not take part; compare waitsIn in the logs of all ranks, "
                                                 "which must be the same"
                                               : "this rank's own device is not done"));
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
