#include "common/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

using std::chrono::milliseconds;

TEST(BackoffDelay, DoublesFromInitialToMax) {
  const Backoff backoff{.initial = milliseconds{100}, .max = milliseconds{1000}, .factor = 2.0, .jitter_share = 0.0};
  const std::vector<std::pair<int, int>> failures_and_delay{{0, 0},   {1, 100},  {2, 200},   {3, 400},
                                                            {4, 800}, {5, 1000}, {60, 1000}, {5000, 1000}};
  for (const auto& [failures, delay] : failures_and_delay) {
    EXPECT_EQ(backoff_delay(backoff, failures, 0.5), milliseconds{delay}) << failures << " failures";
  }
}

TEST(BackoffDelay, IsSpreadByJitterAroundTheMiddle) {
  const Backoff backoff{.initial = milliseconds{1000}, .max = milliseconds{1000}, .factor = 2.0, .jitter_share = 0.5};
  EXPECT_EQ(backoff_delay(backoff, 1, 0.0), milliseconds{500});
  EXPECT_EQ(backoff_delay(backoff, 1, 0.5), milliseconds{1000});
  EXPECT_EQ(backoff_delay(backoff, 1, 0.75), milliseconds{1250});
}

TEST(BackoffDelay, IsByDefaultATenthOfASecondAtFirstAndHalfAMinuteAtMost) {
  EXPECT_EQ(backoff_delay(Backoff{}, 1, 0.5), milliseconds{100});
  EXPECT_EQ(backoff_delay(Backoff{}, 2, 0.0), milliseconds{160});
  EXPECT_EQ(backoff_delay(Backoff{}, 1000, 0.5), milliseconds{30'000});
  EXPECT_EQ(backoff_delay(Backoff{}, -1, 0.5), milliseconds{0});
}

TEST(RandomShare, IsSpreadOverZeroToOne) {
  double lowest = 1.0;
  double highest = 0.0;
  for (int draw = 0; draw < 1000; ++draw) {
    const double share = random_share();
    ASSERT_GE(share, 0.0);
    ASSERT_LT(share, 1.0);
    lowest = std::min(lowest, share);
    highest = std::max(highest, share);
  }
  EXPECT_LT(lowest, 0.25);
  EXPECT_GT(highest, 0.75);
}

}  // namespace
}  // namespace trainyard
