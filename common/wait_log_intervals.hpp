#pragma once

#include <chrono>

namespace trainyard {

/// When a wait for other ranks is first told, and how often then. Most groups are together before the first.
inline constexpr std::chrono::seconds wait_log_delay{2};
inline constexpr std::chrono::seconds wait_log_interval{5};

}  // namespace trainyard
