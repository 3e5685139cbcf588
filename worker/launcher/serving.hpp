#pragma once

#include <functional>
#include <thread>

#include "common/result.hpp"

namespace trainyard::launcher {

/// Starts a thread that runs `listen` until the server is stopped. Returns once `is_running` is true, because stopping
/// a server that does not run yet has no effect. ErrorKind::io when `listen` ends before that; a later failure is
/// logged. What both functions refer to must outlive the thread.
[[nodiscard]] Result<std::jthread> start_serving(std::function<bool()> listen, const std::function<bool()>& is_running);

}  // namespace trainyard::launcher
