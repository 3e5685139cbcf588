#include "worker/launcher/spoke_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainyard::launcher {

SpokeLink::SpokeLink(const rank::GroupEnvironment& environment, const PeerSettings& settings, Instant now,
                     Resolver::LookUp look_up)
    : spoke_{settings, fmt::format("{}:{}", environment.master_address, environment.peer_port), now},
      resolver_{environment.master_address, environment.peer_port, std::move(look_up)} {}

void SpokeLink::add_to(PollSet& files) const {
  files.add(resolver_.file(), POLLIN);
  if (connecting_) files.add(connecting_.get(), POLLOUT);
  if (connection_)
    files.add(connection_->file(), static_cast<short>(connection_->has_unsent() ? POLLIN | POLLOUT : POLLIN));
}

void SpokeLink::run(const PollSet& ready, Instant now) {
  if (connection_) use_connection(ready.events(connection_->file()), now);
  if (connecting_ && ready.events(connecting_.get()) != 0) finish_connect(now);
  if (ready.events(resolver_.file()) != 0) {
    // The spoke may have given this look-up up meanwhile: its answer must not make a second connection.
    if (auto answer = resolver_.take_answer(); answer && std::exchange(is_address_wanted_, false)) {
      if (*answer) {
        addresses_ = std::move(**answer);
        std::reverse(addresses_.begin(), addresses_.end());
        try_next_address("the name has no address", now);
      } else {
        spoke_.on_close(answer->error().message, now);
      }
    }
  }
  spoke_.on_time(now);
  act(now);
}

void SpokeLink::try_next_address(const std::string& trouble, Instant now) {
  std::string last = trouble;
  while (!addresses_.empty()) {
    const rank::SocketAddress address = addresses_.back();
    addresses_.pop_back();
    auto socket = rank::start_connect(address);
    if (socket) {
      connecting_ = std::move(*socket);
      return;
    }
    last = socket.error().message;
  }
  spoke_.on_close(last, now);
}

void SpokeLink::finish_connect(Instant now) {
  const auto connected = rank::take_connect_error(connecting_.get());
  FileDescriptor socket = std::exchange(connecting_, FileDescriptor{});
  if (!connected) return try_next_address(connected.error().message, now);
  addresses_.clear();
  connection_.emplace(std::move(socket));
  spoke_.on_open(now);
}

void SpokeLink::use_connection(short events, Instant now) {
  if ((events & POLLOUT) != 0) {
    if (auto sent = connection_->flush(); !sent) {
      connection_.reset();
      return spoke_.on_close(sent.error().message, now);
    }
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const auto messages = connection_->receive();
  if (!messages) {
    connection_.reset();
    return spoke_.on_close(messages.error().message, now);
  }
  for (const PeerMessage& message : *messages) spoke_.on_message(message, now);
}

void SpokeLink::act(Instant now) {
  for (auto actions = spoke_.take_actions(); !actions.empty(); actions = spoke_.take_actions()) {
    for (const auto& action : actions) {
      if (std::holds_alternative<PeerSpoke::Connect>(action)) {
        is_address_wanted_ = true;
        resolver_.ask();
      }
      if (std::holds_alternative<PeerSpoke::Close>(action)) {
        connection_.reset();
        connecting_.reset();
        addresses_.clear();
        is_address_wanted_ = false;
      }
      const auto* send = std::get_if<PeerSpoke::Send>(&action);
      if (send == nullptr || !connection_) continue;
      if (auto sent = connection_->send(send->message); !sent) {
        connection_.reset();
        spoke_.on_close(sent.error().message, now);
      }
    }
  }
}

}  // namespace trainyard::launcher
