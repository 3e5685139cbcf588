#include "checkpoint/run/start_patience.hpp"

#include "common/backoff.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr Backoff start_backoff{.initial = std::chrono::seconds{1}, .max = std::chrono::seconds{15}};
// No jitter: most calls are retried only by rank 0 or by one rank of each node.
constexpr double no_jitter = 0.5;

}  // namespace

bool may_pass_at_a_start(StartCall call, ErrorKind kind) {
  switch (kind) {
    case ErrorKind::not_found:  // The bucket may be new.
      return call == StartCall::probe;
    case ErrorKind::unauthorized:
    case ErrorKind::forbidden:
    case ErrorKind::throttled:
    case ErrorKind::unavailable:
    case ErrorKind::timeout:
      return true;
    default:
      return false;
  }
}

bool StartTries::wait_for_next(StartCall call, const Error& error) {
  if (!may_pass_at_a_start(call, error.kind)) return false;
  const Instant now = clock_.instant();
  if (!failing_since_) failing_since_ = now;
  const std::chrono::milliseconds pause = backoff_delay(start_backoff, ++failures_, no_jitter);
  if (now + pause > *failing_since_ + patience_.duration) return false;
  return patience_.wait(pause, error);
}

}  // namespace trainyard::checkpoint
