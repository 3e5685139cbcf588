#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/clock.hpp"
#include "common/result.hpp"

/// How a start retries a storage that does not let it in yet. Rights, keys and buckets that were made seconds ago
/// are not known everywhere at once, and a service that hands out credentials is slow when a thousand ranks ask it.
namespace trainyard::checkpoint {

/// What a start asks of a storage.
enum class StartCall {
  probe,  ///< Whether the place can be used at all.
  state,  ///< Claims, manifests, data, weights: one that is not there is an answer.
};

/// Whether the same call may succeed within minutes. Pure.
[[nodiscard]] bool may_pass_at_a_start(StartCall call, ErrorKind kind);

struct StartPatience {
  /// For how long after the first failure a call is tried again. 0: the first failure is the last.
  std::chrono::milliseconds duration{0};
  /// Waits for `pause` and says whether to try again; false where the group is broken. `error` is what the last try
  /// met, for whoever watches. Must be set where `duration` is not 0.
  std::function<bool(std::chrono::milliseconds pause, const Error& error)> wait{};
};

/// The duration of a job's ranks, unless their environment names another.
inline constexpr std::chrono::minutes default_start_patience{2};

/// The tries of one call. Used from one thread.
class StartTries {
 public:
  StartTries(const StartPatience& patience, const Clock& clock) : patience_{patience}, clock_{clock} {}

  /// Whether `call`, which has failed with `error`, is to be tried again now. Waits before it says so.
  [[nodiscard]] bool wait_for_next(StartCall call, const Error& error);

 private:
  const StartPatience& patience_;
  const Clock& clock_;
  std::optional<Instant> failing_since_;
  std::int64_t failures_ = 0;
};

/// Calls `ask`, a function that returns a Result, until it succeeds or must not be tried again. Returns its last
/// outcome.
template <typename Ask>
auto ask_patiently(const StartPatience& patience, const Clock& clock, StartCall call, const Ask& ask) {
  StartTries tries{patience, clock};
  auto answer = ask();
  while (!answer && tries.wait_for_next(call, answer.error())) answer = ask();
  return answer;
}

}  // namespace trainyard::checkpoint
