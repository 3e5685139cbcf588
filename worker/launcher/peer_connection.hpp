#pragma once

#include <string>
#include <vector>

#include "common/file_descriptor.hpp"
#include "common/result.hpp"
#include "worker/launcher/peer_message.hpp"

namespace trainyard::launcher {

/// Messages over one connected, non-blocking socket. Bytes that the socket does not take at once are kept, up to 1 MiB.
class PeerConnection {
 public:
  explicit PeerConnection(FileDescriptor socket) : socket_{std::move(socket)} {}

  /// Queues `message`, and sends what the socket takes now. ErrorKind::unavailable when the connection is broken or the
  /// peer reads nothing.
  [[nodiscard]] Result<void> send(const PeerMessage& message);
  [[nodiscard]] Result<void> flush();
  /// The messages received since the last call. Once the connection has ended and all messages were returned,
  /// ErrorKind::unavailable. ErrorKind::invalid for bytes that are not a launcher's message.
  [[nodiscard]] Result<std::vector<PeerMessage>> receive();

  /// Half-closes the connection once all is sent. The peer's messages are still received.
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
