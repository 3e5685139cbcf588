#pragma once

#include <memory>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "worker/launcher/peer_group.hpp"
#include "worker/launcher/poll_set.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::launcher {

/// The sockets between the launchers of a group. The launcher's loop drives them, and no call blocks.
class PeerLink {
 public:
  virtual ~PeerLink() = default;
  virtual void add_to(PollSet& files) const = 0;
  /// Reads and writes what is ready, checks deadlines, and sends the messages that follow.
  virtual void run(const PollSet& ready, Instant now) = 0;
  [[nodiscard]] virtual PeerGroup& group() = 0;
  /// Half-closes the connections once all is sent, so that no reset destroys the last messages. Nothing may be reported
  /// after it.
  virtual void finish() = 0;
  /// After finish(): true once the other sides have closed too.
  [[nodiscard]] virtual bool is_finished() const = 0;
};

/// Opens this launcher's link: rank 0's launcher listens, the others connect, and a group of one launcher has no
/// sockets. ErrorKind::already_exists when rank 0's port is in use.
[[nodiscard]] Result<std::unique_ptr<PeerLink>> open_peer_link(const rank::GroupEnvironment& environment,
                                                               const PeerSettings& settings, Instant now);

}  // namespace trainyard::launcher
