#pragma once

#include <cstdint>
#include <optional>

#include "worker/launcher/environment.hpp"
#include "worker/launcher/options.hpp"
#include "worker/launcher/rank_link.hpp"

namespace trainyard::launcher {

/// Runs this launcher's ranks to their end, says how they ended (log, termination message), and ends the process with
/// their exit code. Owns the process: takes SIGTERM, SIGINT and SIGCHLD, reaps every child, and as PID 1 the
/// container's orphans too.
[[noreturn]] void launch(const Options& options, const Environment& environment);

/// The last words of this process: log line and termination message. `rank`: which one speaks; `progress`: the last
/// report of this launcher's first rank.
void say_end(const RankEnd& end, const std::optional<std::int64_t>& rank, const std::optional<RankProgress>& progress,
             const Environment& environment);

}  // namespace trainyard::launcher
