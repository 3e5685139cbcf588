#include "worker/observe/step_times.hpp"

#include <gtest/gtest.h>

namespace trainyard::observe {
namespace {

using namespace std::chrono_literals;

TEST(SpeedMeter, GivesSamplesPerSecondSinceTheLastCall) {
  const Instant start{};
  SpeedMeter meter{start};
  meter.add(100);
  meter.add(100);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 2s), 100.0);
  meter.add(50);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 3s), 50.0);
}

TEST(SpeedMeter, LeavesPausesOut) {
  const Instant start{};
  SpeedMeter meter{start};
  meter.add(100);
  meter.pause(start + 1s);
  meter.resume(start + 61s);
  meter.add(100);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 62s), 100.0);
}

TEST(SpeedMeter, SaysNothingBeforeTimeHasPassed) {
  SpeedMeter meter{Instant{}};
  EXPECT_EQ(meter.take_rate(Instant{}), std::nullopt);
  EXPECT_EQ(meter.time_for(100), std::nullopt);
}

TEST(SpeedMeter, ForeseesTheTimeByASmoothedRate) {
  const Instant start{};
  SpeedMeter meter{start};
  meter.add(100);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 1s), 100.0);
  meter.add(200);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 2s), 200.0);
  EXPECT_DOUBLE_EQ(meter.time_for(1300)->count(), 10.0);
}

TEST(SpeedMeter, LeavesEachPauseOutOnce) {
  const Instant start{};
  SpeedMeter meter{start};
  meter.add(100);
  meter.pause(start + 1s);
  meter.resume(start + 61s);
  meter.add(100);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 62s), 100.0);
  meter.add(100);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 64s), 50.0) << "the time before the pause belongs to the last rate";
  meter.pause(start + 65s);
  meter.resume(start + 70s);
  meter.pause(start + 71s);
  meter.add(100);
  meter.resume(start + 80s);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 80s), 50.0) << "two pauses between two rates";
}

TEST(SpeedMeter, KeepsSamplesUntilTimeHasPassed) {
  const Instant start{};
  SpeedMeter meter{start};
  meter.add(100);
  EXPECT_EQ(meter.take_rate(start), std::nullopt);
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 1s), 100.0);
}

TEST(SpeedMeter, ForeseesNothingWhereNoSampleWasTrainedOn) {
  const Instant start{};
  SpeedMeter meter{start};
  EXPECT_DOUBLE_EQ(*meter.take_rate(start + 1s), 0.0);
  EXPECT_EQ(meter.time_for(100), std::nullopt);
}

}  // namespace
}  // namespace trainyard::observe
