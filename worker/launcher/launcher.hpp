#pragma once

#include <cstdint>
#include <optional>

#include "worker/launcher/options.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// Runs this launcher's ranks until they end, writes the log line and the termination message, and exits with their
/// exit code. Handles the process's signals and reaps every child, orphans of the ranks included.
[[noreturn]] void launch(const Options& options, const rank::Environment& environment);

/// Writes this process's end to the log, to the termination message and to torchrun's error file. `rank`: the rank
/// whose end this is; `progress`: the last report of this launcher's first rank.
void report_end(const rank::RankEnd& end, const std::optional<std::int64_t>& rank,
                const std::optional<rank::RankProgress>& progress, const rank::Environment& environment);

}  // namespace trainyard::launcher
