#pragma once

#include <chrono>

namespace trainyard {

/// When a wait for other ranks is first logged, and how often afterwards. Most groups are together before the first.
inline constexpr std::chrono::seconds first_wait_log_after{2};
inline constexpr std::chrono::seconds wait_log_interval{5};

}  // namespace trainyard
