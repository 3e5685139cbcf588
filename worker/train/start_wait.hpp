#pragma once

#include <chrono>

#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::train {

/// How long this rank retries a storage that fails at its start: TRAINYARD_STORAGE_PATIENCE_SECONDS, else
/// checkpoint::default_start_patience. ErrorKind::invalid when the variable is not a number of seconds.
[[nodiscard]] Result<std::chrono::milliseconds> start_patience_of(const rank::Environment& environment);

/// A patience that retries for `duration`. While it waits, the log and /status name the reason, and a rank that is
/// asked to stop ends as preempted. `link` and `clock` outlive the result.
[[nodiscard]] checkpoint::StartPatience start_patience(std::chrono::milliseconds duration, rank::RankLink& link,
                                                       const Clock& clock);

}  // namespace trainyard::train
