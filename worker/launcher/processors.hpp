#pragma once

#include <cstdint>
#include <string_view>

#include "worker/launcher/group_environment.hpp"

namespace trainyard::launcher {

/// Processors that this process may use, at least 1: its affinity, and the container's CPU limit rounded down.
[[nodiscard]] std::int64_t usable_processors();

/// Whole processors of a cgroup v2 `cpu.max` ("150000 100000" is 1), at least 1; 0 where there is no limit or it is
/// unreadable.
[[nodiscard]] std::int64_t processors_of_cpu_max(std::string_view text);

/// All of the group where MASTER_ADDR is loopback, this pod's otherwise.
[[nodiscard]] std::int64_t ranks_on_this_machine(const GroupEnvironment& environment);

}  // namespace trainyard::launcher
