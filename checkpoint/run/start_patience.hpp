#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/clock.hpp"
#include "common/result.hpp"

/// Patience: how a start retries a storage that does not let it in yet. New rights, keys and buckets take time to
/// become known everywhere, and a service that hands out credentials is slow when a thousand ranks ask it.
namespace trainyard::checkpoint {

/// The kinds of calls that a start makes.
enum class StartCall {
  probe,  ///< Can the place be used at all?
  state,  ///< Reads of claims, manifests, data and weights. not_found is an answer, and not retried.
};

/// True when the same call may succeed within minutes. Pure.
[[nodiscard]] bool may_pass_at_a_start(StartCall call, ErrorKind kind);

struct StartPatience {
  /// For how long after the first failure a call is retried. 0: never.
  std::chrono::milliseconds duration{0};
  /// Waits for `pause`. Returns true to try again, and false when the group is broken. `error` is the last try's, for
  /// logs and /status. Must be set if `duration` is not 0.
  std::function<bool(std::chrono::milliseconds pause, const Error& error)> wait{};
};

/// The duration for a job's ranks, unless their environment names another.
inline constexpr std::chrono::minutes default_start_patience{2};

/// Counts the tries of one call. One thread uses it.
class StartTries {
 public:
  StartTries(const StartPatience& patience, const Clock& clock) : patience_{patience}, clock_{clock} {}

  /// True when `call`, which has failed with `error`, is to be tried again now. Waits before it returns true.
  [[nodiscard]] bool wait_for_next(StartCall call, const Error& error);

 private:
  const StartPatience& patience_;
  const Clock& clock_;
  std::optional<Instant> failing_since_;
  std::int64_t failures_ = 0;
};

/// Calls `ask`, a function that returns a Result, until it succeeds or must not be retried. Returns the last Result.
template <typename Ask>
auto ask_patiently(const StartPatience& patience, const Clock& clock, StartCall call, const Ask& ask) {
  StartTries tries{patience, clock};
  auto answer = ask();
  while (!answer && tries.wait_for_next(call, answer.error())) answer = ask();
  return answer;
}

}  // namespace trainyard::checkpoint
