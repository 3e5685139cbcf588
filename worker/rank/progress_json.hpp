#pragma once

#include <nlohmann/json_fwd.hpp>

#include "worker/rank/rank_link.hpp"

namespace trainyard::rank {

/// A rank's progress in contract.hpp's words. A number that is not finite becomes null when it is written.
[[nodiscard]] nlohmann::json to_json(const RankProgress& progress);
/// Reads it back; null is not-a-number. Throws nlohmann::json::exception for what is no progress.
[[nodiscard]] RankProgress progress_from(const nlohmann::json& object);

}  // namespace trainyard::rank
