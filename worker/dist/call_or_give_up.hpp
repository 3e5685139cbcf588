#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// Returns when `is_done_within`, which waits as long as it is told, returns true. Errors as call_or_give_up.
[[nodiscard]] Result<void> wait_for_call(const std::function<bool(std::chrono::milliseconds)>& is_done_within,
                                         const rank::RankLink& link, std::chrono::milliseconds deadline,
                                         std::string_view what);

/// The result of `call`, which runs on a thread of its own because it may block for ever. Throws what `call` throws.
/// `what` names the call in messages.
///
/// Errors: cancelled when the group is broken or this rank was asked to stop, timeout after `deadline`. The call is
/// then abandoned: its thread cannot be joined and may still run, so that `call` must own all that it uses, and the
/// process should end by RankLink::exit.
template <typename T>
[[nodiscard]] Result<T> call_or_give_up(std::function<T()> call, const rank::RankLink& link,
                                        std::chrono::milliseconds deadline, std::string_view what) {
  std::promise<T> promise;
  std::future<T> result = promise.get_future();
  std::thread{[call = std::move(call), promise = std::move(promise)]() mutable {
    try {
      promise.set_value(call());
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }}.detach();
  const auto is_done_within = [&](std::chrono::milliseconds time) {
    return result.wait_for(time) == std::future_status::ready;
  };
  if (const auto done = wait_for_call(is_done_within, link, deadline, what); !done) return tl::unexpected(done.error());
  return result.get();
}

}  // namespace trainyard::dist
