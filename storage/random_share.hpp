#pragma once

namespace trainyard::storage {

/// In [0, 1), for a backoff's jitter. Any thread.
[[nodiscard]] double random_share();

}  // namespace trainyard::storage
