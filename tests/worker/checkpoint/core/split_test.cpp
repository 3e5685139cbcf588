#include "worker/checkpoint/core/split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

EntryInfo entry(std::string name, std::vector<std::int64_t> shape, Placement placement = Placement::replicated) {
  std::uint64_t bytes = 4;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return {.name = std::move(name), .placement = placement, .dtype = "F32", .shape = std::move(shape), .bytes = bytes};
}

TEST(ShareOf, GivesEachRankItsOwnAndRank0TheBuffers) {
  const std::vector<EntryInfo> entries = {entry("rng", {16}, Placement::per_rank),
                                          entry("mean", {8}, Placement::rank0)};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 16}, {1, 0, 8}}));
  EXPECT_EQ(share_of(1, 2, entries), (std::vector<Slice>{{0, 0, 16}}));
}

TEST(ShareOf, CutsLargeEntriesBetweenRowsAndLeavesSmallOnesWhole) {
  const std::vector<EntryInfo> entries = {entry("large", {1024, 1024}), entry("bias", {64}), entry("scalar", {})};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 512}}));
  EXPECT_EQ(share_of(1, 2, entries), (std::vector<Slice>{{0, 512, 1024}, {1, 0, 64}, {2, 0, 1}}));
}

TEST(ShareOf, GivesEmptyEntriesToRank0) {
  const std::vector<EntryInfo> entries = {entry("empty", {0, 3})};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 0}}));
  EXPECT_EQ(share_of(1, 2, entries), std::vector<Slice>{});
}

TEST(ShareOf, HoldsEachRowOnceAndNearlyEqualBytesForAnyEntriesAndRanks) {
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    const auto world_size = static_cast<std::int64_t>(random() % 9 + 1);
    std::vector<EntryInfo> entries;
    std::uint64_t total_bytes = 0;
    std::uint64_t largest_piece_bytes = 0;
    const std::size_t entry_count = random() % 12;
    for (std::size_t i = 0; i < entry_count; ++i) {
      entries.push_back(entry("e" + std::to_string(i), {static_cast<std::int64_t>(random() % 2000),
                                                        static_cast<std::int64_t>(random() % 900 + 1)}));
      const EntryInfo& info = entries.back();
      total_bytes += info.bytes;
      largest_piece_bytes = std::max(largest_piece_bytes, info.bytes < mebibyte ? info.bytes : row_bytes(info));
    }
    std::vector<std::uint64_t> next_row(entries.size(), 0);
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      std::uint64_t rank_bytes = 0;
      for (const Slice& slice : share_of(rank, world_size, entries)) {
        ASSERT_EQ(slice.row_begin, next_row[slice.entry]);
        next_row[slice.entry] = slice.row_end;
        rank_bytes += (slice.row_end - slice.row_begin) * row_bytes(entries[slice.entry]);
      }
      ASSERT_LE(rank_bytes, total_bytes / static_cast<std::uint64_t>(world_size) + 2 * largest_piece_bytes + 1);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(next_row[i], row_count(entries[i]));
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
