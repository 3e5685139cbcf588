#pragma once

#include <optional>
#include <string>

#include "common/clock.hpp"
#include "worker/launcher/group_failure.hpp"

namespace trainyard::launcher {

/// The group as one launcher sees it, wherever it stands in it.
class PeerGroup {
 public:
  virtual ~PeerGroup() = default;
  /// A rank here failed. The verdict may name another one, whose failure came first.
  virtual void report_failure(const GroupFailure& failure, Instant now) = 0;
  /// All ranks here ended as meant.
  virtual void report_done(Instant now) = 0;
  /// The group's first failure, in the hub's words. There soon after report_failure(), whoever else lives.
  [[nodiscard]] virtual const std::optional<GroupFailure>& verdict() const = 0;
  /// Who or what is missing, in one sentence; empty once all have come.
  [[nodiscard]] virtual std::string waiting_for(Instant now) const = 0;
};

}  // namespace trainyard::launcher
