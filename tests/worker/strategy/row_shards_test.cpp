#include "worker/strategy/row_shards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trainyard::strategy {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> counts(const std::vector<RowRange>& rows) {
  std::vector<std::int64_t> counts;
  for (const RowRange& range : rows) counts.push_back(range.count());
  return counts;
}

TEST(CutRows, GivesTheRowsThatAreLeftOverToTheRanksThatHaveTheFewestBytes) {
  const auto cuts = cut_rows({{.rows = 10, .row_bytes = 4},
                              {.rows = 10, .row_bytes = 4},
                              {.rows = 3, .row_bytes = 100},
                              {.rows = 1, .row_bytes = 8},
                              {.rows = 0, .row_bytes = 0}},
                             4);
  EXPECT_THAT(counts(cuts[0]), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts(cuts[1]), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(counts(cuts[2]), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(counts(cuts[3]), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(counts(cuts[4]), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(cuts[0], ElementsAre(RowRange{0, 3}, RowRange{3, 6}, RowRange{6, 8}, RowRange{8, 10}));
}

TEST(CutRows, LeavesNoRankMoreThanOneRowAheadOfAnother) {
  for (std::int64_t world_size = 1; world_size <= 9; ++world_size) {
    std::vector<RowSize> parameters;
    std::int64_t widest = 0;
    for (std::int64_t index = 0; index < 40; ++index) {
      parameters.push_back({.rows = index * 7 % 23, .row_bytes = 4 + index * 13 % 31});
      widest = std::max(widest, parameters.back().row_bytes);
    }
    const auto cuts = cut_rows(parameters, world_size);
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(world_size), 0);
    for (std::size_t index = 0; index < parameters.size(); ++index) {
      std::int64_t row = 0;
      for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
        EXPECT_EQ(cuts[index][rank].begin, row);
        row = cuts[index][rank].end;
        bytes[rank] += cuts[index][rank].count() * parameters[index].row_bytes;
      }
      EXPECT_EQ(row, parameters[index].rows);
    }
    const auto [least, most] = std::ranges::minmax(bytes);
    EXPECT_LE(most - least, widest) << world_size << " ranks";
  }
}

TEST(ShardedMemory, IsThatOfTheRowsOfTheParametersAndOfThreeBuckets) {
  const ShardedSizes sizes{.parameter_bytes = 1000, .own_bytes = 250, .state_bytes = 502, .largest_bucket_bytes = 60};
  EXPECT_EQ(sharded_memory(sizes),
            (ShardedMemory{.parameter_bytes = 1000, .gradient_bytes = 250, .state_bytes = 502, .bucket_bytes = 180}));
  EXPECT_EQ(sharded_memory(sizes).total(), 1932);
  ShardedSizes kept = sizes;
  kept.keeps_gradients = true;
  EXPECT_EQ(sharded_memory(kept).bucket_bytes, 1120);
}

TEST(ShardedMemory, OfParametersInPartsIsThatOfTheRowsAndOfSevenBuckets) {
  const ShardedSizes sizes{.parameter_bytes = 1000,
                           .untrained_bytes = 100,
                           .own_bytes = 225,
                           .state_bytes = 450,
                           .largest_bucket_bytes = 60,
                           .shards_parameters = true};
  EXPECT_EQ(sharded_memory(sizes), (ShardedMemory{.parameter_bytes = 325,
                                                  .gathered_bytes = 240,
                                                  .gradient_bytes = 225,
                                                  .state_bytes = 450,
                                                  .bucket_bytes = 180}));
  EXPECT_EQ(sharded_memory(sizes).total(), 1420);
}

}  // namespace
}  // namespace trainyard::strategy
