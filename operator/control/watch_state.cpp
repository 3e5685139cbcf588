#include "operator/control/watch_state.hpp"

#include <algorithm>

namespace trainyard::control {
namespace {

constexpr std::chrono::seconds short_watch{1};
/// After this many timeouts in a row the informer lists afresh: a server whose etcd was restored from a backup answers
/// each watch from our version with a timeout.
constexpr std::int64_t timeouts_max = 3;

WatchState list_afresh(std::int64_t failures) {
  return {.phase = WatchState::Phase::listing, .continue_token = {}, .resource_version = {}, .failures = failures};
}

bool needs_list(const Error& error, std::int64_t failures) {
  switch (error.kind) {
    case ErrorKind::unavailable:
    case ErrorKind::throttled:
    case ErrorKind::unauthorized:
    case ErrorKind::forbidden:
    case ErrorKind::cancelled:
      return false;
    case ErrorKind::timeout:
      return failures >= timeouts_max;
    default:
      return true;
  }
}

}  // namespace

WatchState after_page(WatchState state, const kube::ListPage& page) {
  state.failures = 0;
  state.continue_token = page.continue_token;
  if (page.continue_token.empty()) {
    state.phase = WatchState::Phase::watching;
    state.resource_version = page.resource_version;
  }
  return state;
}

WatchState after_list_failure(WatchState state, const Error& error) {
  ++state.failures;
  // The server would refuse the continue token again, so the list starts over.
  const bool is_token_bad = !state.continue_token.empty() && needs_list(error, 0);
  return is_token_bad || error.kind == ErrorKind::gone ? list_afresh(state.failures) : state;
}

WatchState after_event(WatchState state, std::string resource_version) {
  state.failures = 0;
  if (!resource_version.empty()) state.resource_version = std::move(resource_version);
  return state;
}

WatchState after_watch(WatchState state, const Result<void>& ended, std::chrono::milliseconds lasted,
                       bool is_eventful) {
  if (ended) {
    state.failures = lasted < short_watch && !is_eventful ? state.failures + 1 : 0;
    return state;
  }
  ++state.failures;
  return needs_list(ended.error(), state.failures) ? list_afresh(state.failures) : state;
}

std::chrono::milliseconds delay_before_next(const WatchState& state, const Backoff& backoff, const Result<void>& last,
                                            double random) {
  const auto told = last ? std::nullopt : last.error().retry_after;
  return std::max(backoff_delay(backoff, state.failures, random), told.value_or(std::chrono::milliseconds{0}));
}

}  // namespace trainyard::control
