#pragma once

#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"
#include "worker/launcher/frame.hpp"
#include "worker/launcher/peer_message.hpp"

namespace trainyard::launcher {

/// Messages over one connected, non-blocking socket. What does not go out at once is kept, up to a bound.
class PeerConnection {
 public:
  explicit PeerConnection(FileDescriptor socket) : socket_{std::move(socket)} {}

  /// Queues, and sends what the socket takes now. ErrorKind::unavailable when the connection is broken or the peer
  /// reads nothing.
  [[nodiscard]] Result<void> send(const PeerMessage& message);
  [[nodiscard]] Result<void> flush();
  /// What has come. Messages that came before the end are given first: the error of the end (unavailable; invalid for
  /// what is no launcher's message) comes with the next call.
  [[nodiscard]] Result<std::vector<PeerMessage>> receive();

  /// Ends the sending side once all is out; what the peer still sends is received.
  void finish();
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  [[nodiscard]] int file() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
  FrameReader reader_;
  std::string unsent_;
  bool is_finishing_ = false;
};

}  // namespace trainyard::launcher
