#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::rank {

/// When a wait for other ranks is first logged, and how often afterwards. Most groups are together before the first.
inline constexpr std::chrono::seconds first_wait_log_after{2};
inline constexpr std::chrono::seconds wait_log_interval{5};

/// "rank 1 of 2 has not come (12 s)", "ranks 1, 2, 5 and 9 more of 16 have not come (3 s)". `missing` is sorted and not
/// empty.
[[nodiscard]] std::string missing_ranks_text(const std::vector<std::int64_t>& missing, std::int64_t world_size,
                                             std::chrono::milliseconds waited);
/// "12 s"; for deadlines and waiting times in sentences.
[[nodiscard]] std::string seconds_text(std::chrono::milliseconds time);

}  // namespace trainyard::rank
