#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "worker/launcher/collective_mismatch.hpp"
#include "worker/launcher/culprit.hpp"

/// The messages between launchers: one JSON object per frame. Rank 0's launcher is the hub, and the others connect to
/// it. A frame is four bytes of length, the most significant byte first, then the payload.
namespace trainyard::launcher {

/// The first message to the hub: the sender's ranks, and the group that it belongs to.
struct Hello {
  std::string job;  ///< For messages only.
  std::string job_uid;
  std::int64_t attempt = 1;
  std::int64_t world_size = 1;
  std::int64_t first_rank = 0;
  std::int64_t rank_count = 1;
  bool operator==(const Hello&) const = default;
};
struct Welcome {
  bool operator==(const Welcome&) const = default;
};
/// The hub's answer to a launcher that is not of its group, with the hub's own job and attempt.
struct Refusal {
  std::string job_uid;
  std::int64_t attempt = 1;
  std::string message;
  bool operator==(const Refusal&) const = default;
};
/// Sent once a second in both directions.
struct PeerBeat {
  std::vector<std::int64_t> missing;  ///< The ranks that have not connected. Only the hub sends them.
  /// The long waits of the sender's ranks, at most long_waits_max. Only spokes send them, to the hub.
  std::vector<LongWait> long_waits;
  bool operator==(const PeerBeat&) const = default;
};
/// A spoke sends a failure of its own ranks to the hub. The hub sends its verdict to the spokes.
struct FailureReport {
  GroupFailure failure;
  bool operator==(const FailureReport&) const = default;
};
/// All ranks of the sender ended without a failure: the end of the connection is not a lost peer.
struct Done {
  bool operator==(const Done&) const = default;
};

using PeerMessage = std::variant<Hello, Welcome, Refusal, PeerBeat, FailureReport, Done>;

[[nodiscard]] std::string encode(const PeerMessage& message);
/// ErrorKind::invalid when `payload` is not such a message.
[[nodiscard]] Result<PeerMessage> decode_peer_message(std::string_view payload);

inline constexpr std::size_t frame_bytes_max = 16'384;

/// Needs payload.size() <= frame_bytes_max.
[[nodiscard]] std::string make_frame(std::string_view payload);

/// Assembles frames from pieces of any size.
class FrameReader {
 public:
  /// Returns the payloads that `bytes` completes. ErrorKind::invalid for a frame that is too long: the other side is
  /// not a launcher.
  [[nodiscard]] Result<std::vector<std::string>> feed(std::string_view bytes);

 private:
  std::string rest_;
};

}  // namespace trainyard::launcher
