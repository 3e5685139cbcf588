#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

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

/// How long a rank of a group of `world_size` waits for a collective or a step on its device. Nothing for a group of
/// one: no peer can be lost there, and however long a step takes, the launcher alone decides whether it hangs.
[[nodiscard]] std::optional<std::chrono::milliseconds> collective_deadline(const Deadlines& deadlines,
                                                                           std::int64_t world_size);

}  // namespace trainyard::dist
