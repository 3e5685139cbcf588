#include "worker/launcher/hub_link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <vector>

#include "common/logging.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

constexpr std::size_t connections_max = 70'000;  // More than the largest group has launchers.

}  // namespace

void HubLink::add_to(PollSet& files) const {
  if (listener_) files.add(listener_.get(), POLLIN);
  for (const auto& [id, member] : members_) {
    files.add(member.connection.file(), static_cast<short>(member.connection.has_unsent() ? POLLIN | POLLOUT : POLLIN));
  }
}

void HubLink::run(const PollSet& ready, Instant now) {
  std::vector<PeerHub::ConnectionId> readable;
  std::vector<PeerHub::ConnectionId> writable;
  for (const auto& [id, member] : members_) {
    const short events = ready.events(member.connection.file());
    if ((events & POLLOUT) != 0) writable.push_back(id);
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) readable.push_back(id);
  }
  for (const auto id : writable) {
    if (auto sent = members_.at(id).connection.flush(); !sent) drop(id, sent.error().message, now);
  }
  for (const auto id : readable) {
    if (const auto found = members_.find(id); found != members_.end()) read(id, found->second, now);
  }
  if (listener_ && ready.events(listener_.get()) != 0) accept_all(now);
  hub_.on_time(now);
  act(now);
  std::erase_if(members_,
                [](const auto& entry) { return entry.second.is_closing && !entry.second.connection.has_unsent(); });
}

void HubLink::accept_all(Instant now) {
  while (members_.size() < connections_max) {
    rank::SocketAddress address;
    address.size = sizeof(address.storage);
    FileDescriptor socket{accept4(listener_.get(), address.get(), &address.size, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!socket) return;
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const auto id = next_id_++;
    members_.emplace(id, Member{PeerConnection{std::move(socket)}});
    hub_.on_open(id, to_string(address), now);
  }
}

void HubLink::read(PeerHub::ConnectionId id, Member& member, Instant now) {
  const auto messages = member.connection.receive();
  if (!messages) return drop(id, messages.error().message, now);
  for (const PeerMessage& message : *messages) hub_.on_message(id, message, now);
}

void HubLink::act(Instant now) {
  // A dropped connection can make the hub decide on further actions. The loop ends because each further round needs
  // another dropped connection.
  for (auto actions = hub_.take_actions(); !actions.empty(); actions = hub_.take_actions()) {
    for (const auto& action : actions) {
      if (const auto* close = std::get_if<PeerHub::Close>(&action)) {
        if (const auto found = members_.find(close->connection); found != members_.end())
          found->second.is_closing = true;
        continue;
      }
      const auto& send = std::get<PeerHub::Send>(action);
      if (const auto* refusal = std::get_if<Refusal>(&send.message))
        logging::warn("peer refused", {{"error", refusal->message}});
      const auto found = members_.find(send.connection);
      if (found == members_.end()) continue;
      if (auto sent = found->second.connection.send(send.message); !sent)
        drop(send.connection, sent.error().message, now);
    }
  }
}

void HubLink::drop(PeerHub::ConnectionId id, const std::string& why, Instant now) {
  members_.erase(id);
  hub_.on_close(id, why, now);
}

void HubLink::finish() {
  listener_.reset();
  for (auto& [id, member] : members_) member.connection.finish();
}

}  // namespace trainyard::launcher
