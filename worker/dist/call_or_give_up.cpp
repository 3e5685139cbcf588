#include "worker/dist/call_or_give_up.hpp"

#include <fmt/format.h>

#include "common/clock.hpp"

namespace trainyard::dist {
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
