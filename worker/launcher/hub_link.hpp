#pragma once

#include <map>

#include "worker/launcher/peer_connection.hpp"
#include "worker/launcher/peer_hub.hpp"
#include "worker/launcher/peer_link.hpp"

namespace trainyard::launcher {

/// PeerHub's sockets: a listener, and a connection to each launcher that has connected.
class HubLink final : public PeerLink {
 public:
  HubLink(FileDescriptor listener, const PeerSettings& settings, Instant now)
      : hub_{settings, now}, listener_{std::move(listener)} {}

  void add_to(PollSet& files) const override;
  void run(const PollSet& ready, Instant now) override;
  [[nodiscard]] PeerGroup& group() override { return hub_; }
  void finish() override;
  [[nodiscard]] bool is_finished() const override { return members_.empty(); }

 private:
  struct Member {
    PeerConnection connection;
    bool is_closing = false;  ///< Is removed once all messages are sent.
  };

  void accept_all(Instant now);
  void read(PeerHub::ConnectionId id, Member& member, Instant now);
  void act(Instant now);
  void drop(PeerHub::ConnectionId id, const std::string& why, Instant now);

  PeerHub hub_;
  FileDescriptor listener_;
  std::map<PeerHub::ConnectionId, Member> members_;
  PeerHub::ConnectionId next_id_ = 1;
};

}  // namespace trainyard::launcher
