#include "worker/train/streamed_batches.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::train {

void PrintTo(const SharedStep& step, std::ostream* out) {
  *out << step.batches << " batches, " << step.samples << " samples, " << step.ended_ranks << " ended ranks, "
       << step.unused_samples << " unused samples";
}

namespace {

class NoStreams final : public IterableDataset {
 public:
  explicit NoStreams(bool reads_ahead) : reads_ahead_{reads_ahead} {}
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
  [[nodiscard]] bool reads_ahead() const override { return reads_ahead_; }

 private:
  bool reads_ahead_;
};

TEST(ShareStep, HasAsManyBatchesAsTheShortestStreamOrWhereRanksJoinTheLongest) {
  struct Case {
    std::string what;
    std::vector<BatchOfRanks> batches;  // of three ranks
    SharedStep step;
    SharedStep joined;
  };
  const std::vector<Case> cases{
      {"all have all", {{3, 12}, {3, 11}}, {2, 23, 0, 0}, {2, 23, 0, 0}},
      {"the second batch is that of one rank", {{3, 12}, {1, 4}}, {1, 12, 0, 4}, {2, 16, 0, 0}},
      {"one rank has ended", {{2, 8}, {1, 4}}, {0, 0, 1, 12}, {2, 12, 1, 0}},
      {"all have ended", {{0, 0}, {0, 0}}, {0, 0, 3, 0}, {0, 0, 3, 0}},
      {"one batch a step", {{3, 10}}, {1, 10, 0, 0}, {1, 10, 0, 0}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(share_step(c.batches, 3, /*joins=*/false), c.step) << c.what;
    EXPECT_EQ(share_step(c.batches, 3, /*joins=*/true), c.joined) << c.what;
  }
}

TEST(StreamSamples, GivesEachSampleOfThePositionToOneRank) {
  for (const std::int64_t world_size : {1, 2, 3, 4}) {
    for (const std::int64_t samples : {0, 12, 13, 40}) {
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        std::int64_t expected = 0;
        for (std::int64_t number = rank; number < samples; number += world_size) ++expected;
        EXPECT_EQ(stream_samples(samples, {.rank = rank, .world_size = world_size}), expected)
            << samples << " samples, rank " << rank << " of " << world_size;
      }
    }
  }
}

TEST(StreamThreads, AreOneWhereTheJobAsksForAnyOrSaysNothingAndTheStreamReadsAhead) {
  struct Case {
    std::optional<std::int64_t> asked;
    bool reads_ahead;
    std::int64_t threads;
  };
  for (const Case& c : {Case{{}, false, 0}, Case{{}, true, 1}, Case{0, true, 0}, Case{1, false, 1}, Case{4, true, 1}}) {
    api::DataSpec spec;
    spec.loader_threads = c.asked;
    EXPECT_EQ(stream_threads(spec, NoStreams{c.reads_ahead}), c.threads) << c.asked.value_or(-1) << c.reads_ahead;
  }
}

TEST(CheckStepsAreKnown, RefusesSchedulesThatEndWithTheTrainingUnlessMaxStepsDoes) {
  using enum api::LrScheduleName;
  for (const api::LrScheduleName name : {constant, step, linear, cosine, plateau}) {
    api::TrainingSpec training;
    training.lr_schedule.name = name;
    const auto checked = check_steps_are_known(training);
    EXPECT_EQ(checked.has_value(), name != linear && name != cosine);
    if (!checked) {
      EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
      EXPECT_EQ(checked.error().message,
                std::string{"training.lrSchedule.name "} + (name == linear ? "linear" : "cosine") +
                    " needs the number of the last step, which a training set without a size does not tell: set "
                    "training.maxSteps");
    }
    training.max_steps = 9;
    EXPECT_TRUE(check_steps_are_known(training));
  }
}

}  // namespace
}  // namespace trainyard::train
