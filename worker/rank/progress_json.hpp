#pragma once

#include <nlohmann/json_fwd.hpp>

#include "worker/rank/rank_link.hpp"

namespace trainyard::rank {

/// The fields of contract.hpp's /status for `progress`. Numbers that are not finite are written as null.
[[nodiscard]] nlohmann::json to_json(const RankProgress& progress);
/// Reads what to_json() wrote; null is read as not-a-number. Throws nlohmann::json::exception for anything else.
[[nodiscard]] RankProgress progress_from(const nlohmann::json& object);

}  // namespace trainyard::rank
