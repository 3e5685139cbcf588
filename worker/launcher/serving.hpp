#pragma once

#include <functional>
#include <thread>

#include "common/result.hpp"

namespace trainyard::launcher {

/// A thread that runs `listen` until the server is stopped. Returns once `is_running`: to stop a server that does not
/// run yet has no effect. ErrorKind::io when `listen` returns or throws before. Where it ends later without having been
/// asked to, it returns false, which is logged. What both refer to outlives the thread.
[[nodiscard]] Result<std::jthread> start_serving(std::function<bool()> listen, const std::function<bool()>& is_running);

}  // namespace trainyard::launcher
