#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "common/result.hpp"
#include "worker/rank/rank_link.hpp"

/// What goes over the socket pair between a rank process and its launcher: one JSON object a packet.
namespace trainyard::rank {

/// The number of the rank's inherited socket. Set by the launcher for its own ranks, whose first act is to open the
/// link.
inline constexpr std::string_view env_rank_link = "TRAINYARD_RANK_LINK_FD";
inline constexpr std::size_t rank_message_bytes_max = 32'768;

struct Alive {  ///< The process runs: sent by a thread of its own, once a second.
  bool operator==(const Alive&) const = default;
};
struct Beat {  ///< Training gets on.
  bool operator==(const Beat&) const = default;
};
/// From the rank: what it reports, or why it is about to end. From the launcher: a RankEnd, for a group that is broken,
/// or a CheckpointRequest, for rank 0.
using RankMessage = std::variant<Alive, Beat, RankProgress, RankEnd, CheckpointRequest>;

[[nodiscard]] std::string encode(const RankMessage& message);
/// ErrorKind::invalid for what is no such message.
[[nodiscard]] Result<RankMessage> decode_rank_message(std::string_view packet);

}  // namespace trainyard::rank
