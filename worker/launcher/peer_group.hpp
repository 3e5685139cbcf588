#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "worker/launcher/culprit.hpp"
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
  std::chrono::milliseconds mismatch_deadline{60'000};  ///< A group fails when all ranks have told of long waits, in
                                                        ///< different collectives, for this time.
};

/// The group as one launcher sees it, on rank 0's side (PeerHub) and on the other launchers' (PeerSpoke).
class PeerGroup {
 public:
  virtual ~PeerGroup() = default;
  /// A rank of this launcher failed. The verdict may name another rank, whose failure came first.
  virtual void report_failure(const GroupFailure& failure, Instant now) = 0;
  /// All ranks of this launcher succeeded, or stopped as asked.
  virtual void report_done(Instant now) = 0;
  /// The long waits of this launcher's ranks, as they are now.
  virtual void report_long_waits(std::vector<LongWait> waits, Instant now) = 0;
  /// The group's first failure, as the hub decided. It is there soon after report_failure(), even if the hub is lost.
  [[nodiscard]] virtual const std::optional<GroupFailure>& verdict() const = 0;
  /// The missing ranks, or what keeps this launcher from the hub, in one sentence; empty once all launchers have
  /// connected.
  [[nodiscard]] virtual std::string waiting_for(Instant now) const = 0;
};

}  // namespace trainyard::launcher
