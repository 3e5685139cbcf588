#pragma once

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"
#include "worker/train/ending.hpp"

namespace trainyard::train {

/// How this rank ends after `error`. A lost rank may have caused the error: then the result is the launcher's report of
/// that rank, for which it waits up to two seconds.
[[nodiscard]] tl::unexpected<rank::RankEnd> lost(const rank::RankLink& link, Stage stage, const Error& error);

}  // namespace trainyard::train
