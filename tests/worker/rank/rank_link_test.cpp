#include "worker/rank/rank_link.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "common/file_descriptor.hpp"
#include "worker/rank/rank_message.hpp"

namespace trainyard::rank {
namespace {

TEST(RankLink, LearnsThatItsLauncherHasEndedThoughTheLastWordsWereNotRead) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  FileDescriptor launchers{ends[0]};
  ::setenv(std::string{env_rank_link}.c_str(), std::to_string(ends[1]).c_str(), 1);
  const auto link = open_rank_link();
  pollfd heard{.fd = launchers.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&heard, 1, 60'000), 1) << "it says that it lives";
  EXPECT_EQ(link->group_failure(), std::nullopt);
  launchers.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!link->group_failure() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_TRUE(link->group_failure());
  EXPECT_EQ(link->group_failure()->reason, "LauncherLost");
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace trainyard::rank
