#include "checkpoint/format/data_file.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/safetensors.hpp"
#include "storage/crc32c.hpp"
#include "tests/checkpoint/run/test_state.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

HostEntry entry(std::string name, std::vector<std::int64_t> shape, Placement placement = Placement::replicated,
                std::optional<Rows> rows = std::nullopt) {
  std::uint64_t bytes = 4;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  return {.info = {.name = std::move(name),
                   .placement = placement,
                   .dtype = "F32",
                   .shape = std::move(shape),
                   .bytes = bytes},
          .bytes = {},
          .rows = rows};
}

TEST(ShareOf, GivesEachRankItsOwnAndRank0TheBuffers) {
  const std::vector<HostEntry> entries = {entry("rng", {16}, Placement::per_rank),
                                          entry("mean", {8}, Placement::rank0)};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 16}, {1, 0, 8}}));
  EXPECT_EQ(share_of(1, 2, entries), (std::vector<Slice>{{0, 0, 16}}));
}

TEST(ShareOf, CutsLargeEntriesBetweenRowsAndLeavesSmallOnesWhole) {
  const std::vector<HostEntry> entries = {entry("large", {1024, 1024}), entry("bias", {64}), entry("scalar", {})};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 512}}));
  EXPECT_EQ(share_of(1, 2, entries), (std::vector<Slice>{{0, 512, 1024}, {1, 0, 64}, {2, 0, 1}}));
}

TEST(ShareOf, GivesASmallEntryToTheRankOnWhosePartMostOfItFalls) {
  const std::vector<HostEntry> small = {entry("bias", {64})};
  EXPECT_EQ(share_of(0, 3, small), std::vector<Slice>{});
  EXPECT_EQ(share_of(1, 3, small), (std::vector<Slice>{{0, 0, 64}}));
  EXPECT_EQ(share_of(2, 3, small), std::vector<Slice>{});
  const std::vector<HostEntry> a_mebibyte = {entry("least", {256, 1024})};
  EXPECT_EQ(share_of(0, 2, a_mebibyte), (std::vector<Slice>{{0, 0, 128}})) << "the least that is cut";
}

TEST(ShareOf, LeavesEntriesWholeWhoseRowsAreLessThanAByte) {
  HostEntry packed = entry("packed", {8 << 20});
  packed.info.bytes = 4 * mebibyte;
  const std::vector<HostEntry> entries = {packed};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 8 << 20}}));
  EXPECT_EQ(share_of(1, 2, entries), std::vector<Slice>{});
}

TEST(ShareOf, GivesEmptyEntriesToRank0) {
  const std::vector<HostEntry> entries = {entry("empty", {0, 3})};
  EXPECT_EQ(share_of(0, 2, entries), (std::vector<Slice>{{0, 0, 0}}));
  EXPECT_EQ(share_of(1, 2, entries), std::vector<Slice>{});
}

TEST(ShareOf, GivesEachRankTheRowsThatItHoldsOfShardedOnes) {
  const auto share_with = [](std::optional<Rows> rows) {
    const std::vector<HostEntry> entries = {entry("large", {1024, 1024}, Placement::sharded, rows)};
    return share_of(1, 2, entries);
  };
  EXPECT_EQ(share_with(Rows{100, 1024}), (std::vector<Slice>{{0, 100, 1024}}));
  EXPECT_EQ(share_with(std::nullopt), (std::vector<Slice>{{0, 0, 1024}}));
  EXPECT_EQ(share_with(Rows{7, 7}), std::vector<Slice>{}) << "more ranks than rows";
}

TEST(ShareOf, CutsMoreBytesThanAProductWithTheRanksCanHold) {
  const std::vector<HostEntry> entries = {entry("huge", {std::int64_t{1} << 40, 1 << 20})};  // 2^62 bytes.
  constexpr std::uint64_t share_rows = std::uint64_t{1} << 37;
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(share_of(static_cast<std::int64_t>(rank), 8, entries),
              (std::vector<Slice>{{0, rank * share_rows, (rank + 1) * share_rows}}));
  }
}

// The entries of `state` that `receipt`'s data file does not hold at a multiple of their element's size.
std::vector<std::string> misaligned_entries(const Receipt& receipt, const TestState& state) {
  std::vector<std::string> names;
  for (const Chunk& chunk : receipt.chunks) {
    const auto found =
        std::ranges::find(state.entries(), chunk.entry, [](const HostEntry& entry) { return entry.info.name; });
    if (chunk.offset % safetensors_element_bytes(found->info.dtype).value_or(1) != 0) names.push_back(chunk.entry);
  }
  return names;
}

/// Data files in memory.
class ADataFile : public testing::Test {
 protected:
  nlohmann::json header_of(const Receipt& receipt) {
    const std::vector<std::byte>& file = objects.objects.at(data_key(manifest, receipt.rank));
    EXPECT_EQ(file.size(), receipt.bytes);
    EXPECT_EQ(storage::crc32c(file), receipt.crc32c);
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
    const auto* text = reinterpret_cast<const char*>(file.data());
    return nlohmann::json::parse(text + 8, text + 8 + header_bytes);
  }

  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  Manifest manifest{.id = {.step = 20, .generation = 3}};
};

TEST_F(ADataFile, HoldsEveryTensorAtAMultipleOfItsElementsSize) {
  TestState state;
  state.add_replicated("model.mask", "BOOL", {1}, 1);  // An odd number of bytes in narrow entries.
  const auto receipt = write_share(store, manifest, 0, 1, state.entries());
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(misaligned_entries(*receipt, state), std::vector<std::string>{});
}

TEST_F(ADataFile, HoldsEveryTensorAtAMultipleOfItsElementsSizeBesideATypeThatSafetensorsLacks) {
  TestState state;
  state.add_replicated("model.narrow", "Float8_e4m3fnuz", {3}, 1);  // An odd number of bytes.
  const auto receipt = write_share(store, manifest, 0, 1, state.entries());
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(misaligned_entries(*receipt, state), std::vector<std::string>{});
}

TEST_F(ADataFile, SaysInItsHeaderWhatItIs) {
  TestState state;
  state.add_replicated("optimizer.none", "ComplexDouble", {0, 3}, 16);
  const auto receipt = write_share(store, manifest, 0, 2, state.entries());
  ASSERT_TRUE(receipt) << receipt.error().message;
  const nlohmann::json header = header_of(*receipt);
  EXPECT_EQ(header.at("__metadata__"), (nlohmann::json{{"format", "pt"}, {"step", "20"}, {"rank", "0"}}));
  const auto part = std::ranges::find(receipt->chunks, "model.large", &Chunk::entry);
  ASSERT_NE(part, receipt->chunks.end());
  const auto& large = header.at(fmt::format("model.large[0:{}]", part->row_end));
  EXPECT_EQ(large.at("shape"), (nlohmann::json{part->row_end, 512}));
  EXPECT_EQ(large.at("dtype"), "BF16");
  // A type that the format lacks becomes bytes.
  EXPECT_EQ(header.at("optimizer.none").at("dtype"), "U8");
  EXPECT_EQ(header.at("optimizer.none").at("shape"), (nlohmann::json{0, 3, 1}));
}

TEST_F(ADataFile, OfAllEntriesHoldsThemWhicheverRankItIsOf) {
  const TestState state;
  const auto receipt = write_all(store, manifest, 5, state.entries());
  ASSERT_TRUE(receipt) << receipt.error().message;
  EXPECT_EQ(receipt->rank, 5);
  std::set<std::string> names;
  for (const Chunk& chunk : receipt->chunks) {
    EXPECT_TRUE(names.insert(chunk.entry).second) << chunk.entry;
  }
  EXPECT_EQ(names.size(), state.entries().size());
  EXPECT_EQ(header_of(*receipt).at("__metadata__").at("rank"), "5");
}

TEST(Cut, KeepsToTheBytesUnlessARowIsLarger) {
  struct Row {
    std::uint64_t bytes_max;
    std::vector<Slice> pieces;
  };
  const EntryInfo info = entry("e", {10, 6}).info;  // 24 bytes a row.
  for (const Row& row : {Row{1000, {{3, 2, 9}}}, Row{72, {{3, 2, 5}, {3, 5, 8}, {3, 8, 9}}},
                         Row{71, {{3, 2, 4}, {3, 4, 6}, {3, 6, 8}, {3, 8, 9}}}}) {
    EXPECT_EQ(cut({3, 2, 9}, info, row.bytes_max), row.pieces) << row.bytes_max;
  }
  EXPECT_EQ(cut({0, 0, 2}, info, 1), (std::vector<Slice>{{0, 0, 1}, {0, 1, 2}}));
  EXPECT_EQ(cut({0, 0, 9}, entry("e", {9, 0}).info, 1).back().row_end, 9U);
  EXPECT_EQ(cut({0, 5, 5}, info, 100), std::vector<Slice>{});
}

TEST(ShareOf, HoldsEachRowOnceAndNearlyEqualBytesForAnyEntriesAndRanks) {
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    const auto world_size = static_cast<std::int64_t>(random() % 9 + 1);
    std::vector<HostEntry> entries;
    std::uint64_t total_bytes = 0;
    std::uint64_t largest_piece_bytes = 0;
    const std::size_t entry_count = random() % 12;
    for (std::size_t i = 0; i < entry_count; ++i) {
      entries.push_back(entry("e" + std::to_string(i), {static_cast<std::int64_t>(random() % 2000),
                                                        static_cast<std::int64_t>(random() % 900 + 1)}));
      const EntryInfo& info = entries.back().info;
      total_bytes += info.bytes;
      largest_piece_bytes = std::max(largest_piece_bytes, info.bytes < mebibyte ? info.bytes : row_bytes(info));
    }
    std::vector<std::uint64_t> next_row(entries.size(), 0);
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      std::uint64_t rank_bytes = 0;
      for (const Slice& slice : share_of(rank, world_size, entries)) {
        ASSERT_EQ(slice.row_begin, next_row[slice.entry]);
        next_row[slice.entry] = slice.row_end;
        rank_bytes += (slice.row_end - slice.row_begin) * row_bytes(entries[slice.entry].info);
      }
      ASSERT_LE(rank_bytes, total_bytes / static_cast<std::uint64_t>(world_size) + 2 * largest_piece_bytes + 1);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(next_row[i], row_count(entries[i].info));
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
