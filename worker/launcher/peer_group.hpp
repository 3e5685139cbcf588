#pragma once

#include <optional>
#include <string>

#include "common/clock.hpp"
#include "worker/launcher/group_failure.hpp"

namespace trainyard::launcher {

/// The group as one launcher sees it, on rank 0's side (PeerHub) and on the other launchers' (PeerSpoke).
class PeerGroup {
 public:
  virtual ~PeerGroup() = default;
  /// A rank of this launcher failed. The verdict may name another rank, whose failure came first.
  virtual void report_failure(const GroupFailure& failure, Instant now) = 0;
  /// All ranks of this launcher succeeded, or stopped as asked.
  virtual void report_done(Instant now) = 0;
  /// The group's first failure, as the hub decided. It is there soon after report_failure(), even if the hub is lost.
  [[nodiscard]] virtual const std::optional<GroupFailure>& verdict() const = 0;
  /// The missing ranks, or what keeps this launcher from the hub, in one sentence; empty once all launchers have
  /// connected.
  [[nodiscard]] virtual std::string waiting_for(Instant now) const = 0;
};

}  // namespace trainyard::launcher
