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
  std::chrono::milliseconds silence_deadline{10'000};      ///< After which a peer that says nothing is lost.
  std::chrono::milliseconds rendezvous_deadline{600'000};  ///< For all to come.
  std::chrono::milliseconds verdict_deadline{
      1'500};  ///< How long a launcher waits for the hub's word on its own failure.
  std::chrono::milliseconds farewell_to_late_peers{
      1'000};  ///< How long the hub of a broken group stays for those who have not come yet, to tell them why.
};

/// "rank 3", or "ranks 4 to 7" of a pod of several.
[[nodiscard]] std::string member_text(const Hello& hello);

/// "job fashion-mnist (uid), attempt 2"
[[nodiscard]] std::string group_text(const Hello& hello);

/// The failure when some have not come before the deadline.
[[nodiscard]] GroupFailure rendezvous_failure(const std::string& waiting_for);

}  // namespace trainyard::launcher
