#include "worker/launcher/status_server.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace trainyard::launcher {
namespace {

TEST(StartServing, SaysWhyAServerDoesNotListen) {
  const auto refused = start_serving([] { return false; }, [] { return false; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message, "the server cannot listen: accepting connections failed");
  const auto failed =
      start_serving([]() -> bool { throw std::runtime_error{"no room for a thread"}; }, [] { return false; });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the server cannot listen: no room for a thread");
}

TEST(StartServing, ReturnsOnceTheServerRuns) {
  std::atomic<bool> runs{false};
  std::atomic<bool> is_stopped{false};
  const auto thread = start_serving(
      [&] {
        runs = true;
        is_stopped.wait(false);
        return true;
      },
      [&] { return runs.load(); });
  EXPECT_TRUE(thread.has_value());
  EXPECT_TRUE(runs);
  is_stopped = true;
  is_stopped.notify_all();
}

}  // namespace
}  // namespace trainyard::launcher
