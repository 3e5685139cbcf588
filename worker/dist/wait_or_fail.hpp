#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "common/result.hpp"
#include "worker/dist/watched_wait.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Waits until the collective is done or the group is broken. Sends beats while this rank waits for others: on a device
/// once the work that this thread has queued on its current stream is done, on the host while `waits_for_others`
/// returns true, or all the time without it. After success the results may be read on the host (CPU) or used on the
/// current stream (CUDA). `what` names the collective in messages.
///
/// Errors: cancelled when the group is broken, unavailable when the collective failed, timeout after `deadline`. The
/// tensors must then not be used, since the collective may still run, and the process should end by RankLink::exit.
/// Throws as torch does when this rank's device or program has failed (torch_error.hpp), and what `waits_for_others`
/// throws.
[[nodiscard]] Result<void> wait_or_fail(const c10::intrusive_ptr<c10d::Work>& work, rank::RankLink& link,
                                        std::optional<std::chrono::milliseconds> deadline, std::string_view what,
                                        const std::function<bool()>& waits_for_others = {});

/// Returns when `is_done_within`, which waits as long as it is told, returns true. Errors as call_or_give_up.
[[nodiscard]] Result<void> wait_for_call(const std::function<bool(std::chrono::milliseconds)>& is_done_within,
                                         const rank::RankLink& link, std::chrono::milliseconds deadline,
                                         std::string_view what);

/// Begins `call` on a thread of its own, which cannot be joined.
template <typename T>
[[nodiscard]] std::future<T> start_call(std::function<T()> call) {
  std::promise<T> promise;
  std::future<T> result = promise.get_future();
  std::thread{[call = std::move(call), promise = std::move(promise)]() mutable {
    try {
      promise.set_value(call());
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }}.detach();
  return result;
}

/// The result of `call`, which runs on a thread of its own because it may block for ever. Throws what `call` throws.
/// `what` names the call in messages.
///
/// Errors: cancelled when the group is broken or this rank was asked to stop, timeout after `deadline`. The call is
/// then abandoned: its thread cannot be joined and may still run, so that `call` must own all that it uses, and the
/// process should end by RankLink::exit.
template <typename T>
[[nodiscard]] Result<T> call_or_give_up(std::function<T()> call, const rank::RankLink& link,
                                        std::chrono::milliseconds deadline, std::string_view what) {
  std::future<T> result = start_call(std::move(call));
  const auto is_done_within = [&](std::chrono::milliseconds time) {
    return result.wait_for(time) == std::future_status::ready;
  };
  if (const auto done = wait_for_call(is_done_within, link, deadline, what); !done) return tl::unexpected(done.error());
  return result.get();
}

/// As call_or_give_up(), for a `call` that waits for other ranks: sends beats meanwhile, and goes on when this rank is
/// asked to stop, as wait_or_fail() does.
template <typename T>
[[nodiscard]] Result<T> call_or_fail(std::function<T()> call, rank::RankLink& link, std::chrono::milliseconds deadline,
                                     std::string_view what) {
  constexpr std::chrono::milliseconds look_interval{20};
  std::future<T> result = start_call(std::move(call));
  const Watched watched{.is_done = [&] { return result.wait_for(look_interval) == std::future_status::ready; },
                        .waits_for_others = [] { return true; }};
  if (const auto done = wait_watched(watched, link, deadline, what); !done) return tl::unexpected(done.error());
  return result.get();
}

}  // namespace trainyard::dist
