#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/backoff.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"

/// State of an informer, which lists page by page and then watches from the list's version. A broken watch continues
/// from the last version seen; an expired one (410) lists afresh.
namespace trainyard::control {

struct WatchState {
  enum class Phase { listing, watching };
  Phase phase = Phase::listing;
  std::string continue_token;    ///< While listing: token of the next page; empty: the first page.
  std::string resource_version;  ///< While watching: version of the last event, bookmark or list.
  std::int64_t failures = 0;     ///< Failures in a row.
  bool operator==(const WatchState&) const = default;
};

[[nodiscard]] WatchState after_page(WatchState state, const kube::ListPage& page);
/// State after a failed page. After a failure of the server or of the connection the page is asked for again. Any other
/// error for a continue token (expired, invalid) starts the list over.
[[nodiscard]] WatchState after_list_failure(WatchState state, const Error& error);

/// State after an event or bookmark that carries `resource_version`.
[[nodiscard]] WatchState after_event(WatchState state, std::string resource_version);
/// State after a watch ended, with or without an error. A watch that `lasted` less than a second and had no event is a
/// failure too, so that a server which ends every watch at once is asked with backoff.
[[nodiscard]] WatchState after_watch(WatchState state, const Result<void>& ended, std::chrono::milliseconds lasted,
                                     bool is_eventful);

/// How long to wait before the next request. `random` in [0, 1).
[[nodiscard]] std::chrono::milliseconds delay_before_next(const WatchState& state, const Backoff& backoff,
                                                          const Result<void>& last, double random);

}  // namespace trainyard::control
