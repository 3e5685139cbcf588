#pragma once

#include <cstdint>
#include <string_view>

namespace trainyard::launcher {

/// How many processes of this container the kernel has killed because memory ran out; 0 where the counter cannot be
/// read.
[[nodiscard]] std::int64_t read_oom_kills();

/// The number in the `oom_kill` line of cgroup v2's memory.events or v1's memory.oom_control; 0 where there is no such
/// line.
[[nodiscard]] std::int64_t oom_kills_in(std::string_view text);

}  // namespace trainyard::launcher
