#pragma once

#include <chrono>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::dist {

struct Deadlines {
  /// How long to wait for the other ranks where there is no launcher, which keeps a deadline of its own. Connecting
  /// NCCL has this time in either case.
  std::chrono::milliseconds rendezvous{std::chrono::minutes{10}};
  /// A collective fails after this time even if no failure was reported. It is longer than a launcher's hang deadline,
  /// so that the launcher finds the stuck rank first.
  std::chrono::milliseconds collective{std::chrono::minutes{30}};
  bool operator==(const Deadlines&) const = default;
};

/// The deadlines of TRAINYARD_RENDEZVOUS_SECONDS and TRAINYARD_COLLECTIVE_SECONDS. Without the latter: half an hour, or
/// three times TRAINYARD_HANG_SECONDS where that is longer. ErrorKind::invalid names a variable with another value.
[[nodiscard]] Result<Deadlines> read_deadlines(const rank::Environment& environment);

}  // namespace trainyard::dist
