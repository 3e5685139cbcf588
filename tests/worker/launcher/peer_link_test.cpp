#include "worker/launcher/peer_link.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/worker/launcher/a_group.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

TEST(OpenPeerLink, GivesALauncherThatHasAllRanksAGroupThatWaitsForNobody) {
  rank::GroupEnvironment environment;
  environment.world_size = 2;
  const auto taken = rank::listen_on(rank::Reach::loopback, 0, "a test");
  ASSERT_TRUE(taken) << taken.error().message;
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(taken->get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  environment.peer_port = ntohs(address.sin_port);
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

}  // namespace
}  // namespace trainyard::launcher
