#pragma once

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/ending.hpp"

namespace trainyard::train {

/// How this rank ends after `error`, which may be the doing of a rank that is lost: then what the launcher knows of
/// that. Waits for its word as long as launchers need to tell each other.
[[nodiscard]] tl::unexpected<rank::RankEnd> lost(const rank::RankLink& link, Stage stage, const Error& error);

}  // namespace trainyard::train
