#include "worker/launcher/peer_connection.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <tuple>

#include "common/try.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

constexpr std::size_t unsent_bytes_max = 1 << 20;

}  // namespace

Result<void> PeerConnection::send(const PeerMessage& message) {
  unsent_ += make_frame(encode(message));
  if (unsent_.size() > unsent_bytes_max) return fail(ErrorKind::unavailable, "the peer does not read what it is sent");
  return flush();
}

Result<void> PeerConnection::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (sent < 0) return fail(ErrorKind::unavailable, rank::error_text(errno));
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
  if (is_finishing_) shutdown(socket_.get(), SHUT_WR);
  return {};
}

void PeerConnection::finish() {
  is_finishing_ = true;
  // An error is ignored: a broken connection is closed anyway.
  std::ignore = flush();
}

Result<std::vector<PeerMessage>> PeerConnection::receive() {
  std::vector<PeerMessage> messages;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return messages;
    if (size <= 0) {
      if (!messages.empty()) return messages;
      return fail(ErrorKind::unavailable, size == 0 ? "closed by the other side" : rank::error_text(errno));
    }
    const auto payloads = TRY(reader_.feed({buffer.data(), static_cast<std::size_t>(size)}));
    for (const std::string& payload : payloads) {
      auto message = TRY(decode_peer_message(payload));
      messages.push_back(std::move(message));
    }
  }
}

}  // namespace trainyard::launcher
