#pragma once

#include <cstdint>
#include <string_view>

namespace trainyard::launcher {

/// How many processes of this container the kernel has killed for memory; 0 where that cannot be read.
[[nodiscard]] std::int64_t read_oom_kills();

/// The `oom_kill` line of cgroup v2's memory.events or v1's memory.oom_control; 0 where there is none.
[[nodiscard]] std::int64_t oom_kills_in(std::string_view text);

}  // namespace trainyard::launcher
