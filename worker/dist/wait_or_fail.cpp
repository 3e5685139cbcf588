#include "worker/dist/wait_or_fail.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "common/clock.hpp"
#include "common/try.hpp"
#include "worker/dist/host_staged_backend.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/dist/watched_wait.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// How often the group's health is checked while a collective runs. The collective's end wakes the waiter at once.
constexpr auto look_interval = 20ms;

/// Shared with the future's callback, which may run long after the waiter has given up.
struct Completion {
  std::mutex mutex;  // guards is_done
  std::condition_variable changed;
  bool is_done = false;

  void finish() {
    const std::scoped_lock lock{mutex};
    is_done = true;
    changed.notify_all();
  }
  bool wait_for(std::chrono::microseconds time) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, time, [this] { return is_done; });
  }
};

Result<void> wait_on_host(const c10d::Work& work, const c10::intrusive_ptr<c10::ivalue::Future>& future,
                          rank::RankLink& link, std::optional<std::chrono::milliseconds> deadline,
                          std::string_view what, const std::function<bool()>& waits_for_others) {
  const auto completion = std::make_shared<Completion>();
  future->addCallback([completion](c10::ivalue::Future& /*done*/) { completion->finish(); });
  TRY(wait_watched({.is_done = [&] { return completion->wait_for(look_interval); },
                    .waits_for_others =
                        [&] { return !waits_for_own_device_alone(work) && (!waits_for_others || waits_for_others()); }},
                   link, deadline, what));
  if (!future->hasError()) return {};
  if (waits_for_own_device_alone(work)) std::rethrow_exception(future->exception_ptr());
  return lost_collective(what, first_line(future->tryRetrieveErrorMessage()));
}

/// A future on a device is complete once its kernels are queued, so that the work itself is polled.
Result<void> wait_on_device(const c10::intrusive_ptr<c10d::Work>& work, c10::Device device, rank::RankLink& link,
                            std::optional<std::chrono::milliseconds> deadline, std::string_view what) {
  const c10::Event own_work = mark_queue(device);
  TRY(wait_watched({.is_done = [&] { return ask_device([&] { return work->isCompleted(); }); },
                    .waits_for_others = [&] { return own_work.query(); }},
                   link, deadline, what));
  if (const std::exception_ptr error = work->exception()) std::rethrow_exception(error);
  work->wait();  // The kernels have ended. This only orders the current stream after them.
  return {};
}

}  // namespace

Result<void> wait_or_fail(const c10::intrusive_ptr<c10d::Work>& work, rank::RankLink& link,
                          std::optional<std::chrono::milliseconds> deadline, std::string_view what,
                          const std::function<bool()>& waits_for_others) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const std::exception& error) {
    return lost_collective(what, message_of(error));
  }
  if (future->devices().empty()) return wait_on_host(*work, future, link, deadline, what, waits_for_others);
  try {
    return wait_on_device(work, future->devices().front(), link, deadline, what);
  } catch (const std::exception& error) {
    // A device reports the failure of any earlier work here: that is this rank's own end, not the loss of a peer.
    if (failed_part(error) != FailedPart::communication) throw;
    return lost_collective(what, message_of(error));
  }
}

namespace {

using namespace std::chrono_literals;

/// How often the group's health is checked. The end of the call wakes the waiter at once.
constexpr auto call_look_interval = 20ms;

}  // namespace

Result<void> wait_for_call(const std::function<bool(std::chrono::milliseconds)>& is_done_within,
                           const rank::RankLink& link, std::chrono::milliseconds deadline, std::string_view what) {
  const Instant start = std::chrono::steady_clock::now();
  while (!is_done_within(call_look_interval)) {
    if (const auto failure = link.group_failure())
      return fail(ErrorKind::cancelled, fmt::format("{} was given up: {}", what, failure->message));
    if (link.is_stop_requested()) return fail(ErrorKind::cancelled, fmt::format("asked to stop during {}", what));
    if (std::chrono::steady_clock::now() - start >= deadline) {
      return fail(ErrorKind::timeout, fmt::format("{} was not done after {} s", what,
                                                  std::chrono::duration_cast<std::chrono::seconds>(deadline).count()));
    }
  }
  return {};
}

}  // namespace trainyard::dist
