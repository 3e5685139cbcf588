#include "worker/launcher/peer_link.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/launcher/a_group.hpp"
#include "worker/launcher/spoke_link.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

std::uint16_t port_of(const FileDescriptor& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

FileDescriptor a_listener() {
  auto listener = rank::listen_on(rank::Reach::loopback, 0, "a test");
  EXPECT_TRUE(listener) << listener.error().message;
  return std::move(*listener);
}

TEST(OpenPeerLink, GivesALauncherThatHasAllRanksAGroupThatWaitsForNobody) {
  rank::GroupEnvironment environment;
  environment.world_size = 2;
  const FileDescriptor taken = a_listener();
  environment.peer_port = port_of(taken);
  Hello self = hello(0, 2);
  self.rank_count = 2;
  const auto link = open_peer_link(environment, PeerSettings{.self = self}, group_start);
  ASSERT_TRUE(link) << "it needs no port: " << link.error().message;
  PollSet files;
  (*link)->add_to(files);
  PeerGroup& group = (*link)->group();
  EXPECT_EQ(group.waiting_for(group_start), "");
  EXPECT_EQ(group.verdict(), std::nullopt);
  EXPECT_TRUE((*link)->is_finished());
  group.report_failure(a_failure(1), group_start);
  group.report_failure(a_failure(0), group_start);
  EXPECT_EQ(group.verdict(), a_failure(1)) << "the first one";
}

TEST(SpokeLink, TriesTheNextAddressOfRankZerosNameWhereOneRefuses) {
  const FileDescriptor hub = a_listener();
  std::uint16_t refusing_port = 0;
  {
    const FileDescriptor gone = a_listener();
    refusing_port = port_of(gone);
  }
  const auto look_up = [&](const std::string& /*host*/, std::uint16_t /*port*/) -> Resolver::Answer {
    return std::vector{rank::resolve("127.0.0.1", refusing_port)->front(),
                       rank::resolve("127.0.0.1", port_of(hub))->front()};
  };
  SpokeLink link{{}, PeerSettings{.self = hello(1, 2)}, std::chrono::steady_clock::now(), look_up};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  bool is_reached = false;
  while (!is_reached && std::chrono::steady_clock::now() < deadline) {
    PollSet files;
    link.add_to(files);
    files.add(hub.get(), POLLIN);
    files.wait(std::chrono::milliseconds{20});
    is_reached = files.events(hub.get()) != 0;
    link.run(files, std::chrono::steady_clock::now());
  }
  EXPECT_TRUE(is_reached);
}

}  // namespace
}  // namespace trainyard::launcher
