#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/launcher/peer_message.hpp"

namespace trainyard::launcher {

struct PeerSettings {
  Hello self;
  std::chrono::milliseconds beat_interval{1'000};
  std::chrono::milliseconds silence_deadline{10'000};      ///< A peer is lost after so long a silence.
  std::chrono::milliseconds rendezvous_deadline{600'000};  ///< For all launchers to connect.
  std::chrono::milliseconds verdict_deadline{
      1'500};  ///< How long a launcher with a failure waits for the hub's verdict.
  std::chrono::milliseconds farewell_to_late_peers{1'000};  ///< How long the hub of a broken group waits for launchers
                                                            ///< that have not connected yet, to send them the verdict.
};

/// "rank 3", or "ranks 4 to 7" for a pod of several ranks.
[[nodiscard]] std::string member_text(const Hello& hello);

/// "job fashion-mnist (uid), attempt 2"
[[nodiscard]] std::string group_text(const Hello& hello);

/// The failure of a group whose launchers have not all connected before the deadline.
[[nodiscard]] GroupFailure rendezvous_failure(const std::string& waiting_for);

}  // namespace trainyard::launcher
