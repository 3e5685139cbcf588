#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::rank {

/// contract.hpp's termination message: one JSON object of at most termination_message_bytes_max bytes, in which a long
/// message is truncated. `rank`: the rank whose end this is; `progress`: the last report of the pod's first rank.
[[nodiscard]] std::string make_termination_message(const RankEnd& end, const std::optional<std::int64_t>& rank,
                                                   const std::optional<RankProgress>& progress);

/// Writes `message` to the file that TRAINYARD_TERMINATION_LOG names, else to the kubelet's file. Writes nothing where
/// neither exists. ErrorKind::io when writing fails.
[[nodiscard]] Result<void> write_termination_message(const Environment& environment, const std::string& message);

}  // namespace trainyard::rank
