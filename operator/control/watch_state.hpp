#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/backoff.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"

/// How an informer follows one kind of object, as a pure step: list page by page, then watch from the list's version; a
/// broken watch goes on from the last version seen, an expired one (410) lists afresh.
namespace trainyard::control {

struct WatchState {
  enum class Phase { listing, watching };
  Phase phase = Phase::listing;
  std::string continue_token;    ///< listing: of the next page; empty: the first.
  std::string resource_version;  ///< watching: of the last event, bookmark or list seen.
  std::int64_t failures = 0;     ///< In a row.
  bool operator==(const WatchState&) const = default;
};

[[nodiscard]] WatchState after_page(WatchState state, const kube::ListPage& page);
/// Asks for the same page again after a failure of the server or of the connection. Any other error for a continue
/// token (expired, invalid) starts the list over.
[[nodiscard]] WatchState after_list_failure(WatchState state, const Error& error);

/// After an event or bookmark that carries `resource_version`.
[[nodiscard]] WatchState after_event(WatchState state, std::string resource_version);
/// After the stream ended, by the server's will or by a failure. One that `lasted` less than a second and gave no event
/// counts as a failure too, so that a server which ends every watch at once is not asked in a circle.
[[nodiscard]] WatchState after_watch(WatchState state, const Result<void>& ended, std::chrono::milliseconds lasted,
                                     bool is_eventful);

/// How long to wait before the next request. `random` in [0, 1).
[[nodiscard]] std::chrono::milliseconds delay_before_next(const WatchState& state, const Backoff& backoff,
                                                          const Result<void>& last, double random);

}  // namespace trainyard::control
