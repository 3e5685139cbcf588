#include "worker/dist/wait_or_fail.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

/// How often the group's health is checked while a collective runs. The collective's end wakes the waiter at once.
constexpr auto look_interval = 20ms;
/// CUDA work has no callback on the host: its events are polled.
constexpr auto cuda_look_interval = 200us;

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

template <typename IsDone>
Result<void> wait_until(const IsDone& is_done, rank::RankLink& link, std::chrono::milliseconds deadline,
                        std::string_view what) {
  const Instant start = std::chrono::steady_clock::now();
  while (!is_done()) {
    if (const auto failure = link.group_failure()) {
      return fail(ErrorKind::cancelled, fmt::format("{} was given up: {}", what, failure->message));
    }
    if (std::chrono::steady_clock::now() - start >= deadline) {
      return fail(ErrorKind::timeout, fmt::format("{} was not done after {} s: a rank did not take part", what,
                                                  std::chrono::duration_cast<std::chrono::seconds>(deadline).count()));
    }
    link.beat();
  }
  return {};
}

Result<void> lost(std::string_view what, const std::string& why) {
  return fail(ErrorKind::unavailable, fmt::format("{} failed: {}", what, why));
}

}  // namespace

Result<void> wait_or_fail(const c10::intrusive_ptr<c10d::Work>& work, rank::RankLink& link,
                          std::chrono::milliseconds deadline, std::string_view what) {
  try {
    const c10::intrusive_ptr<c10::ivalue::Future> future = work->getFuture();
    if (future->devices().empty()) {
      const auto completion = std::make_shared<Completion>();
      future->addCallback([completion](c10::ivalue::Future& /*done*/) { completion->finish(); });
      TRY(wait_until([&] { return completion->wait_for(look_interval); }, link, deadline, what));
      if (future->hasError()) return lost(what, first_line(future->tryRetrieveErrorMessage()));
      return {};
    }
    // A CUDA future is complete once its kernels are queued, so that the work itself is polled.
    const auto pause = std::make_shared<Completion>();
    const auto is_done = [&] {
      return work->isCompleted() || (pause->wait_for(cuda_look_interval), work->isCompleted());
    };
    TRY(wait_until(is_done, link, deadline, what));
    if (const std::exception_ptr error = work->exception()) std::rethrow_exception(error);
    work->wait();  // The kernels have ended. This only orders the current stream after them.
    return {};
  } catch (const std::exception& error) {
    return lost(what, message_of(error));
  }
}

}  // namespace trainyard::dist
