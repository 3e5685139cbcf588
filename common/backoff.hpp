#pragma once

#include <chrono>
#include <cstdint>

namespace trainyard {

struct Backoff {
  std::chrono::milliseconds initial{100};
  std::chrono::milliseconds max{30'000};
  double factor = 2.0;        ///< At least 1.
  double jitter_share = 0.2;  ///< In [0, 1): the delay is scaled by a value in [1 - share, 1 + share].
};

/// The wait before try number `failures + 1`: initial * factor^(failures - 1), at most max, then jittered; 0 without
/// failures. Pure: the caller gives `random`, in [0, 1).
[[nodiscard]] std::chrono::milliseconds backoff_delay(const Backoff& backoff, std::int64_t failures, double random);

/// A random number in [0, 1), for the jitter of a backoff. Any thread may call.
[[nodiscard]] double random_share();

}  // namespace trainyard
