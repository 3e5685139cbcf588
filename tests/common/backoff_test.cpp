#include "common/backoff.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trainyard
