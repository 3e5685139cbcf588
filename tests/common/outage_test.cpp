#include "common/outage.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard {
namespace {

using std::chrono::seconds;

TEST(Outage, IsLoggedAtOnceAndThenOnceAMinute) {
  Outage outage;
  std::vector<std::int64_t> told;
  for (std::int64_t second = 0; second <= 150; second += 10) {
    if (outage.add_failure(Instant{} + seconds{second})) told.push_back(second);
  }
  EXPECT_EQ(told, (std::vector<std::int64_t>{0, 60, 120}));
  EXPECT_EQ(outage.failures(), 16);
  EXPECT_EQ(outage.duration(Instant{} + seconds{150}), seconds{150});
}

TEST(Outage, OfRareFailuresIsLoggedEachTime) {
  Outage outage;
  EXPECT_EQ(outage.failures(), 0);
  for (std::int64_t minute = 5; minute <= 20; minute += 5) {
    EXPECT_TRUE(outage.add_failure(Instant{} + std::chrono::minutes{minute}));
  }
  EXPECT_EQ(outage.duration(Instant{} + std::chrono::minutes{20}), std::chrono::minutes{15});
}

}  // namespace
}  // namespace trainyard
