#pragma once

#include <memory>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/launcher/peer_group.hpp"
#include "worker/launcher/peer_settings.hpp"
#include "worker/launcher/poll_set.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::launcher {

/// The sockets between the launchers of a group, driven by the launcher's loop and never blocking it.
class PeerLink {
 public:
  virtual ~PeerLink() = default;
  virtual void add_to(PollSet& files) const = 0;
  /// Reads and writes what is ready, lets time pass, and sends what there is to say.
  virtual void run(const PollSet& ready, Instant now) = 0;
  [[nodiscard]] virtual PeerGroup& group() = 0;
  /// Nothing more will be said: half-closes the connections once all is out, so that the last words are not lost to a
  /// reset.
  virtual void finish() = 0;
  /// After finish(): whether the other sides have closed as well.
  [[nodiscard]] virtual bool is_finished() const = 0;
};

/// The link of this launcher's place in the group: rank 0's listens, others connect, a group of one launcher has none.
/// ErrorKind::already_exists when rank 0's port is in use.
[[nodiscard]] Result<std::unique_ptr<PeerLink>> open_peer_link(const rank::GroupEnvironment& environment,
                                                               const PeerSettings& settings, Instant now);

}  // namespace trainyard::launcher
