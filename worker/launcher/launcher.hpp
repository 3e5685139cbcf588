#pragma once

#include <cstdint>
#include <optional>

#include "worker/launcher/options.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// Runs this launcher's ranks to their end, says how they ended (log, termination message), and ends the process with
/// their exit code. Owns the process: takes SIGTERM, SIGINT and SIGCHLD, reaps every child, and as PID 1 the
/// container's orphans too.
[[noreturn]] void launch(const Options& options, const rank::Environment& environment);

/// The last words of this process: log line and termination message. `rank`: which one speaks; `progress`: the last
/// report of this launcher's first rank.
void report_end(const rank::RankEnd& end, const std::optional<std::int64_t>& rank,
                const std::optional<rank::RankProgress>& progress, const rank::Environment& environment);

}  // namespace trainyard::launcher
