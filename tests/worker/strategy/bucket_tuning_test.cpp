#include "worker/strategy/bucket_tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <vector>

namespace trainyard::strategy {
namespace {

using testing::ElementsAre;
using Seconds = std::chrono::duration<double>;

TuningPlan plan_of(std::size_t candidates) {
  TuningPlan plan{.candidates = {}, .steps_per_sample = 2, .rounds = 2};
  for (std::size_t index = 1; index <= candidates; ++index) {
    const auto bytes = static_cast<std::int64_t>(index * 100);
    plan.candidates.push_back({.first_bytes = bytes, .bytes = bytes});
  }
  return plan;
}

/// Makes the steps that are left, each of 1000 bytes; `seconds` is by candidate. Returns the candidate of each.
std::vector<std::size_t> finish(BucketTuning& tuning, const std::vector<double>& seconds) {
  std::vector<std::size_t> candidates;
  while (!tuning.is_done()) {
    candidates.push_back(tuning.candidate());
    tuning.add_step(1000, Seconds{seconds[candidates.back()]});
  }
  return candidates;
}

TEST(BucketTuning, TriesEachCandidateInTurnAndKeepsTheOneWithTheMostBytesPerSecond) {
  struct Case {
    std::vector<double> seconds;  // of a step, by candidate
    std::int64_t expected;
  };
  const Case cases[] = {{{3, 2, 1}, 300}, {{1, 2, 3}, 100}, {{2, 1, 3}, 200}, {{1, 1, 1}, 100}, {{0, 0, 0}, 100}};
  for (const auto& [seconds, expected] : cases) {
    BucketTuning tuning{plan_of(3)};
    EXPECT_THAT(finish(tuning, seconds), ElementsAre(0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
    EXPECT_EQ(tuning.limits().bytes, expected);
  }
}

TEST(BucketTuning, RatesACandidateByAllOfItsSamplesButTheFirstOfTheTraining) {
  BucketTuning tuning{plan_of(2)};
  // Each two steps are a sample: the first one, then 100, 200, 100 and 200 bytes.
  const double seconds[] = {900, 900, 1, 1, 2, 2, 9, 9, 2, 2};
  for (const double of_step : seconds) tuning.add_step(1000, Seconds{of_step});
  EXPECT_TRUE(tuning.is_done());
  EXPECT_EQ(tuning.limits().bytes, 200);
}

TEST(BucketTuning, ReturnsEachSampleWithItsLastStep) {
  BucketTuning tuning{plan_of(2)};
  for (int step = 0; step < 4; ++step) tuning.add_step(1, Seconds{1});
  EXPECT_FALSE(tuning.add_step(600, Seconds{1}));
  const auto sample = tuning.add_step(400, Seconds{3});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->candidate, 1U);
  EXPECT_EQ(sample->bytes, 1000);
  EXPECT_EQ(sample->bytes_per_second(), 250.0);
  EXPECT_EQ(TuningSample{}.bytes_per_second(), 0.0);
}

TEST(BucketTuning, GoesOnFromItsStateAsIfThereHadBeenNoStop) {
  const std::vector<double> seconds{3, 1, 2};
  BucketTuning whole{plan_of(3)};
  const auto candidates = finish(whole, seconds);
  for (std::size_t stop = 0; stop <= candidates.size(); ++stop) {
    BucketTuning before{plan_of(3)};
    for (std::size_t step = 0; step < stop; ++step) before.add_step(1000, Seconds{seconds[before.candidate()]});
    BucketTuning after{plan_of(3)};
    after.state().copy_(before.state());
    EXPECT_EQ(finish(after, seconds),
              std::vector(candidates.begin() + static_cast<std::ptrdiff_t>(stop), candidates.end()));
    EXPECT_TRUE(torch::equal(after.state(), whole.state()));
    EXPECT_EQ(after.limits().bytes, 200);
  }
}

}  // namespace
}  // namespace trainyard::strategy
