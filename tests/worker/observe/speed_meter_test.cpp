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

}  // namespace
}  // namespace trainyard::observe
