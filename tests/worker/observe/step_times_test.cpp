#include "worker/observe/step_times.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::observe {
namespace {

using namespace std::chrono_literals;

/// Times of one step, in milliseconds: data, forward, backward, communication, optimizer, checkpoint.
RankTimes a_rank(std::array<int, 6> milliseconds, std::string node = "n") {
  RankTimes rank{.node = std::move(node), .times = {.steps = 1}};
  for (std::size_t part = 0; part < milliseconds.size(); ++part)
    rank.times.parts[part] = std::chrono::milliseconds{milliseconds[part]};
  return rank;
}

TEST(StepTimer, GivesTheTimeSinceThePartBeforeToThePartThatEnds) {
  fakes::FakeClock clock;
  StepTimer timer{clock};
  clock.advance(1s);  // Before the step.
  for (int step = 0; step < 2; ++step) {
    timer.begin();
    clock.advance(1ms);
    timer.end(StepPart::data);
    clock.advance(2ms);
    timer.end(StepPart::forward);
    clock.advance(3ms);
    timer.end(StepPart::communication);
    timer.count_step();
    clock.advance(1s);  // Between the steps.
  }
  const StepTimes times = timer.take();
  EXPECT_EQ(times, (StepTimes{.steps = 2, .parts = {2ms, 4ms, 0ms, 6ms, 0ms, 0ms}}));
  EXPECT_EQ(
      step_milliseconds(times),
      (std::map<std::string, double>{
          {"data", 1}, {"forward", 2}, {"backward", 0}, {"communication", 3}, {"optimizer", 0}, {"checkpoint", 0}}));
  EXPECT_EQ(timer.take(), StepTimes{});
}

TEST(RankTimes, AreReadFromTheirLine) {
  for (const RankTimes& times : {a_rank({1, 2, 3, 4, 5, 6}, "node 7"), a_rank({0, 0, 0, 0, 0, 0}, ""), RankTimes{}})
    EXPECT_EQ(parse_rank_times(to_line(times)), times);
  EXPECT_EQ(parse_rank_times(""), RankTimes{});
}

TEST(StepMilliseconds, AreTheMeanOverAllRanks) {
  const std::vector<RankTimes> ranks{a_rank({1, 0, 0, 0, 0, 4}), a_rank({3, 0, 0, 0, 0, 0})};
  EXPECT_EQ(step_milliseconds(ranks).at("data"), 2.0);
  EXPECT_EQ(step_milliseconds(ranks).at("checkpoint"), 2.0);
  EXPECT_TRUE(step_milliseconds(StepTimes{}).empty());
  const RankTimes without_samples{.node = "n", .times = {.steps = 0, .parts = {std::chrono::milliseconds{500}}}};
  EXPECT_EQ(step_milliseconds(std::vector{a_rank({1, 0, 0, 0, 0, 0}), without_samples}).at("data"), 1.0);
}

RankTimes in_ten_steps(std::array<int, 6> milliseconds) {
  RankTimes rank = a_rank(milliseconds);
  rank.times.steps = 10;
  return rank;
}

TEST(FindStraggler, NamesTheRankThatMakesTheOthersWait) {
  const RankTimes usual = a_rank({1, 4, 5, 0, 0, 0});
  struct Row {
    std::string why;
    std::vector<RankTimes> ranks;
    std::optional<Straggler> straggler;
  };
  const std::vector<Row> rows{
      {"no ranks", {}, std::nullopt},
      {"one rank has nobody to compare with", {a_rank({100, 0, 0, 0, 0, 0})}, std::nullopt},
      {"equal ranks", {usual, usual, usual}, std::nullopt},
      {"no time has passed", {a_rank({0, 0, 0, 0, 0, 0}), a_rank({0, 0, 0, 0, 0, 0})}, std::nullopt},
      {"below the factor", {usual, usual, a_rank({1, 4, 9, 0, 0, 0})}, std::nullopt},
      {"at the factor", {usual, usual, a_rank({1, 4, 10, 0, 0, 0}, "m")}, Straggler{2, "m", StepPart::backward, 1.5}},
      {"a millisecond is noise", {a_rank({1, 0, 0, 0, 0, 0}), a_rank({2, 0, 0, 0, 0, 0})}, std::nullopt},
      {"at the delay",
       {a_rank({2, 0, 0, 0, 0, 0}), a_rank({4, 0, 0, 0, 0, 0}, "m")},
       Straggler{1, "m", StepPart::data, 2.0}},
      {"noise in each of ten steps", {in_ten_steps({10, 0, 0, 0, 0, 0}), in_ten_steps({20, 0, 0, 0, 0, 0})}, {}},
      {"a rank that had samples in fewer steps",
       {a_rank({1, 0, 0, 0, 0, 0}), in_ten_steps({100, 0, 0, 0, 0, 0})},
       std::nullopt},
      {"the slower of two", {a_rank({21, 4, 5, 0, 0, 0}, "m"), usual}, Straggler{0, "m", StepPart::data, 3.0}},
      {"who waits for the others is not slow", {usual, usual, a_rank({1, 4, 5, 500, 0, 0})}, std::nullopt},
      {"the part beyond the median, not the longest part",
       {a_rank({1, 50, 0, 0, 0, 0}), a_rank({40, 51, 0, 0, 0, 0}, "m"), a_rank({1, 50, 0, 0, 0, 0})},
       Straggler{1, "m", StepPart::data, 91.0 / 51.0}},
      {"a stall of one rank's checkpoint",
       {usual, a_rank({1, 4, 5, 0, 0, 10}, "m"), usual},
       Straggler{1, "m", StepPart::checkpoint, 2.0}},
  };
  for (const Row& row : rows) EXPECT_EQ(find_straggler(row.ranks), row.straggler) << row.why;
}

}  // namespace
}  // namespace trainyard::observe
