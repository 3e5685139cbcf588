#include "worker/data/sampling.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace trainyard::data {
namespace {

std::vector<std::int64_t> values(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return {dense.data_ptr<std::int64_t>(), dense.data_ptr<std::int64_t>() + dense.numel()};
}

// Python 3.11, torch 2.11: list(DistributedSampler(range(10), num_replicas=W, rank=r, shuffle=True, seed=S)) after
// set_epoch(E).
TEST(Sampler, GivesEachRankTheOrderOfPythonsDistributedSampler) {
  struct Case {
    std::int64_t world_size, rank, seed, epoch;
    std::vector<std::int64_t> expected;
  };
  const std::vector<Case> cases{
      {1, 0, 0, 0, {4, 1, 7, 5, 3, 9, 0, 8, 6, 2}},
      {2, 0, 0, 0, {4, 7, 3, 0, 6}},
      {2, 1, 0, 0, {1, 5, 9, 8, 2}},
      {2, 1, 0, 3, {0, 7, 5, 9, 4}},
      {4, 0, 42, 1, {8, 5, 2}},
      {4, 2, 42, 1, {9, 6, 8}},
      {4, 3, 42, 1, {0, 7, 4}},
  };
  for (const Case& c : cases) {
    const torch::Tensor order = epoch_order(10, c.seed, c.epoch);
    EXPECT_EQ(values(step_samples(order, 0, 100, {.rank = c.rank, .world_size = c.world_size})), c.expected)
        << "rank " << c.rank << " of " << c.world_size << ", seed " << c.seed << ", epoch " << c.epoch;
  }
}

TEST(Sampler, GivesAllRanksEquallyManyAndRepeatsOnlyTheFirstSamples) {
  const std::int64_t world_size = 4;
  const torch::Tensor order = epoch_order(10, 0, 0);
  std::multiset<std::int64_t> seen;
  std::int64_t steps = 0;
  for (std::int64_t position = 0; position < 10; position = next_position(10, position, 2, world_size), ++steps) {
    std::set<std::int64_t> sizes;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      const auto ids = values(step_samples(order, position, 2, {.rank = rank, .world_size = world_size}));
      sizes.insert(static_cast<std::int64_t>(ids.size()));
      seen.insert(ids.begin(), ids.end());
    }
    EXPECT_EQ(sizes.size(), 1U) << "at position " << position;
  }
  EXPECT_EQ(steps, steps_for(10, 2, world_size));
  std::multiset<std::int64_t> expected{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  expected.insert(order[0].item<std::int64_t>());
  expected.insert(order[1].item<std::int64_t>());
  EXPECT_EQ(seen, expected);
}

TEST(Sampler, FillsUpEvenWhenThereAreMoreRanksThanSamples) {
  const torch::Tensor order = epoch_order(3, 0, 0);
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(values(step_samples(order, 0, 5, {.rank = rank, .world_size = 8})),
              std::vector<std::int64_t>{order[rank % 3].item<std::int64_t>()});
  }
}

TEST(Sampler, ContinuesInTheMiddleOfAnEpochWhereItStopped) {
  const torch::Tensor order = epoch_order(100, 3, 5);
  const GroupRank self{.rank = 1, .world_size = 2};
  const auto whole = values(step_samples(order, 0, 50, self));
  auto parts = values(step_samples(order, 0, 20, self));
  for (const std::int64_t id : values(step_samples(order, 40, 30, self))) parts.push_back(id);
  EXPECT_EQ(parts, whole);
}

TEST(Sampler, LosesAndRepeatsNothingWhenTheNumberOfRanksChangesInAnEpoch) {
  const torch::Tensor order = epoch_order(98, 3, 5);
  std::multiset<std::int64_t> seen;
  std::int64_t position = 0;
  const auto take_step = [&](std::int64_t world_size) {
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      const auto ids = values(step_samples(order, position, 7, {.rank = rank, .world_size = world_size}));
      seen.insert(ids.begin(), ids.end());
    }
    position = next_position(98, position, 7, world_size);
  };
  take_step(2);
  while (position < 98) take_step(3);
  EXPECT_EQ(seen.size(), 98U);
  EXPECT_EQ((std::set<std::int64_t>{seen.begin(), seen.end()}).size(), 98U);
}

TEST(Sampler, SharesEvaluationSoThatEverySampleIsSeenOnce) {
  for (const std::int64_t samples : {1, 7, 8, 9}) {
    std::multiset<std::int64_t> seen;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const auto ids = values(evaluation_samples(samples, {.rank = rank, .world_size = 4}));
      seen.insert(ids.begin(), ids.end());
    }
    std::multiset<std::int64_t> expected;
    for (std::int64_t id = 0; id < samples; ++id) expected.insert(id);
    EXPECT_EQ(seen, expected) << samples << " samples";
  }
}

}  // namespace
}  // namespace trainyard::data
