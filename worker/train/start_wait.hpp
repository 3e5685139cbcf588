#pragma once

#include <chrono>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/checkpoint/core/start_patience.hpp"
#include "worker/launcher/environment.hpp"
#include "worker/launcher/rank_link.hpp"

namespace trainyard::train {

/// How long this rank's start bears with its storage: TRAINYARD_STORAGE_PATIENCE_SECONDS, else
/// checkpoint::start_budget. ErrorKind::invalid for another text than a number of seconds.
[[nodiscard]] Result<std::chrono::milliseconds> start_budget_of(const launcher::Environment& environment);

/// The patience of `budget`. While it waits, the log and /status say for what, and a rank that is asked to stop ends as
/// preempted. `link` and `clock` outlive it.
[[nodiscard]] checkpoint::StartPatience start_patience(std::chrono::milliseconds budget, launcher::RankLink& link,
                                                       const Clock& clock);

}  // namespace trainyard::train
