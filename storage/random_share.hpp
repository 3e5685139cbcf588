#pragma once

namespace trainyard::storage {

/// A random number in [0, 1), for the jitter of a backoff. Any thread may call.
[[nodiscard]] double random_share();

}  // namespace trainyard::storage
