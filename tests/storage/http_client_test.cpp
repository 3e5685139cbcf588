#include "storage/http_client.hpp"

#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;

constexpr Instant start{1h};

TEST(FailingTime, BeginsAtTheEndOfACallsFirstTryHoweverLongItTook) {
  FailingTime time;
  EXPECT_FALSE(time.is_failing());
  EXPECT_EQ(time.on_failure(1, start, start + 90s), start + 90s);
  EXPECT_TRUE(time.is_failing());
}

TEST(FailingTime, BeginsWithTheFirstTryThatFailedOnceACallFailsAgain) {
  FailingTime time;
  EXPECT_EQ(time.on_failure(1, start, start + 1s), start + 1s);
  EXPECT_EQ(time.on_failure(1, start + 2s, start + 3s), start + 3s) << "another call's first failure";
  EXPECT_EQ(time.on_failure(2, start + 4s, start + 5s), start);
  EXPECT_EQ(time.on_failure(3, start + 6s, start + 7s), start);
}

TEST(FailingTime, NeverBeginsBeforeAnotherCallsSuccess) {
  FailingTime time;
  time.on_success(start + 50s);
  EXPECT_EQ(time.on_failure(1, start, start + 60s), start + 60s);
  EXPECT_EQ(time.on_failure(2, start + 61s, start + 62s), start + 50s) << "the first try had begun before the success";
  time.on_success(start + 70s);
  EXPECT_FALSE(time.is_failing());
  EXPECT_EQ(time.on_failure(3, start + 71s, start + 72s), start + 71s);
}

}  // namespace
}  // namespace trainyard::storage
