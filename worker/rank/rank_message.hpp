#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <variant>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

/// The messages over the socket pair between a rank process and its launcher: one JSON object per packet.
namespace trainyard::rank {

/// The fields of contract.hpp's /status for `progress`. Numbers that are not finite are written as null.
[[nodiscard]] nlohmann::json to_json(const RankProgress& progress);
/// Reads what to_json() wrote; null is read as not-a-number. Throws nlohmann::json::exception for anything else.
[[nodiscard]] RankProgress progress_from(const nlohmann::json& object);

/// File descriptor of the socket that the launcher passes to a rank.
inline constexpr std::string_view env_rank_link = "TRAINYARD_RANK_LINK_FD";
inline constexpr std::size_t rank_message_bytes_max = 32'768;
inline constexpr std::size_t collective_bytes_max = 128;  ///< Limit of a collective's name in a message.

struct Alive {  ///< The process runs. A thread of its own sends it once a second.
  bool operator==(const Alive&) const = default;
};
struct Beat {             ///< Training makes progress, or waits for other ranks.
  std::string long_wait;  ///< The collective in which the rank has waited for others for long; else empty.
  bool operator==(const Beat&) const = default;
};
/// The rank sends Alive, Beat, RankProgress, and RankEnd before it ends. The launcher sends RankEnd when the group is
/// broken, and CheckpointRequest to rank 0.
using RankMessage = std::variant<Alive, Beat, RankProgress, RankEnd, CheckpointRequest>;

[[nodiscard]] std::string encode(const RankMessage& message);
/// ErrorKind::invalid when `packet` is not such a message.
[[nodiscard]] Result<RankMessage> decode_rank_message(std::string_view packet);

}  // namespace trainyard::rank
