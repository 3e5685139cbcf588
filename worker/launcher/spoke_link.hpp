#pragma once

#include <optional>
#include <vector>

#include "worker/launcher/peer_connection.hpp"
#include "worker/launcher/peer_link.hpp"
#include "worker/launcher/peer_spoke.hpp"
#include "worker/launcher/resolver.hpp"

namespace trainyard::launcher {

/// PeerSpoke's look-up of rank 0's name, and its connection to rank 0's launcher.
class SpokeLink final : public PeerLink {
 public:
  SpokeLink(const rank::GroupEnvironment& environment, const PeerSettings& settings, Instant now,
            Resolver::LookUp look_up = rank::resolve);

  void add_to(PollSet& files) const override;
  void run(const PollSet& ready, Instant now) override;
  [[nodiscard]] PeerGroup& group() override { return spoke_; }
  void finish() override {
    if (connection_) connection_->finish();
  }
  [[nodiscard]] bool is_finished() const override { return !connection_; }

 private:
  void try_next_address(const std::string& trouble, Instant now);
  void finish_connect(Instant now);
  void use_connection(short events, Instant now);
  void act(Instant now);

  PeerSpoke spoke_;
  Resolver resolver_;
  bool is_address_wanted_ = false;
  std::vector<rank::SocketAddress> addresses_;  ///< Not tried yet.
  FileDescriptor connecting_;
  std::optional<PeerConnection> connection_;
};

}  // namespace trainyard::launcher
