#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/clock.hpp"
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

/// torchrun names this file to each of its processes, and prints the message of the one that failed first.
inline constexpr std::string_view env_elastic_error_file = "TORCHELASTIC_ERROR_FILE";

/// `end` as the JSON that torchrun reads from that file. `time`: when the rank ended, by which torchrun finds the first
/// failure.
[[nodiscard]] std::string make_error_file(const RankEnd& end, Time time);

/// Writes make_error_file() where TORCHELASTIC_ERROR_FILE says. Writes nothing where it is not set, and nothing for an
/// `end` with exit code 0. ErrorKind::io when writing fails.
[[nodiscard]] Result<void> write_error_file(const Environment& environment, const RankEnd& end, Time time);

}  // namespace trainyard::rank
