// State that is cut over the ranks by rows, saved by some number of ranks and loaded by any other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "checkpoint/format/manifest.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t chunk_bytes_max = 100;
constexpr std::uint64_t largest_chunk_bytes = 200;  // A row of optimizer.wide.

/// The rows of `row_count` that `rank` holds.
using Split = Rows (*)(std::uint64_t rank, std::uint64_t world_size, std::uint64_t row_count);

Rows even(std::uint64_t rank, std::uint64_t world_size, std::uint64_t row_count) {
  return {row_count * rank / world_size, row_count * (rank + 1) / world_size};
}

// Each rank takes half of what is left, the last one the rest.
Rows uneven(std::uint64_t rank, std::uint64_t world_size, std::uint64_t row_count) {
  std::uint64_t begin = 0;
  for (std::uint64_t before = 0; before < rank; ++before) begin += (row_count - begin + 1) / 2;
  return {begin, rank + 1 == world_size ? row_count : begin + (row_count - begin + 1) / 2};
}

Rows all_on_the_last(std::uint64_t rank, std::uint64_t world_size, std::uint64_t row_count) {
  return rank + 1 == world_size ? Rows{0, row_count} : Rows{row_count / 2, row_count / 2};
}

Rows backwards(std::uint64_t rank, std::uint64_t world_size, std::uint64_t row_count) {
  return even(world_size - 1 - rank, world_size, row_count);
}

constexpr std::array<Split, 4> splits = {even, uneven, all_on_the_last, backwards};

void shard(TestRun& run, Split split) {
  run.chunk_bytes_max = chunk_bytes_max;
  run.large_rows = 1;
  const auto rank = static_cast<std::uint64_t>(run.communicator->rank());
  const auto world_size = static_cast<std::uint64_t>(run.communicator->world_size());
  run.extend = [=](TestState& state) {
    state.add_sharded("optimizer.matrix", "F32", {37, 6}, 4, split(rank, world_size, 37));
    state.add_sharded("optimizer.vector", "BF16", {211}, 2, split(rank, world_size, 211));
    state.add_sharded("optimizer.few", "I64", {3, 2}, 8, split(rank, world_size, 3));
    state.add_sharded("optimizer.wide", "F32", {4, 50}, 4, split(rank, world_size, 4));
    state.add_sharded("optimizer.none", "F32", {0, 4}, 4, {0, 0});
    state.add_sharded("optimizer.thin", "F32", {5, 0}, 4, split(rank, world_size, 5));
    state.add_sharded("optimizer.scalar", "F32", {}, 4, rank == 0 ? Rows{0, 1} : Rows{1, 1});
  };
}

void save(fakes::MemoryObjects& objects, std::int64_t world_size, Split split) {
  on_every_rank(world_size, objects, [&](TestRun& run) {
    shard(run, split);
    ASSERT_TRUE(run.restore());
    const auto saved = run.save(10);
    ASSERT_TRUE(saved) << saved.error().message;
  });
}

// Expects the state of step 10 that `saved_by` ranks saved. A rank that they did not have keeps fresh entries of its
// own.
void expect_state(const TestRun& run, std::int64_t saved_by) {
  const TestState expected = run.make_state(10);
  const TestState fresh = run.make_state(-1);
  for (std::size_t i = 0; i < expected.entries().size(); ++i) {
    const HostEntry& entry = run.state.entries()[i];
    const bool is_new = entry.info.placement == Placement::per_rank && run.communicator->rank() >= saved_by;
    EXPECT_TRUE(std::ranges::equal(entry.bytes, (is_new ? fresh : expected).entries()[i].bytes)) << entry.info.name;
  }
}

// The most that a rank may read: the bytes that it holds, and a chunk at either end of each sharded entry.
std::uint64_t bytes_read_max(const TestState& state) {
  std::uint64_t bytes = 0;
  for (const HostEntry& entry : state.entries()) {
    bytes += entry.bytes.size() + (entry.info.placement == Placement::sharded ? 2 * largest_chunk_bytes : 0);
  }
  return bytes;
}

void expect_resharded(std::int64_t from, Split saved_as, std::int64_t to, Split loaded_as) {
  fakes::MemoryObjects objects;
  save(objects, from, saved_as);
  fakes::ThreadGroup group{to};
  group.run([&](Communicator& communicator) {
    std::atomic<std::uint64_t> bytes_read{0};  // By several threads.
    TestRun run{std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [&](std::string_view call, std::string_view key, storage::Pieces pieces) -> std::optional<Error> {
          if (is_data(call, key)) bytes_read += pieces.front().size();
          return std::nullopt;
        })};
    run.communicator = &communicator;
    shard(run, loaded_as);
    const auto restored = run.as_attempt(2).restore();
    ASSERT_TRUE(restored) << restored.error().message;
    ASSERT_TRUE(*restored);
    expect_state(run, from);
    EXPECT_LE(bytes_read, bytes_read_max(run.state));
    EXPECT_TRUE(run.save(20));
  });
}

TEST(ShardedState, IsLoadedToTheByteByAnyNumberOfRanks) {
  std::size_t count = 0;
  for (const std::int64_t from : {1, 2, 3, 4, 5, 8}) {
    for (const std::int64_t to : {1, 2, 3, 4, 5, 8}) {
      SCOPED_TRACE(fmt::format("{} ranks to {}", from, to));
      expect_resharded(from, splits[count % 4], to, splits[count / 4 % 4]);
      ++count;
    }
  }
}

TEST(ShardedState, IsLoadedToTheByteHoweverItIsDivided) {
  for (const auto& [from, to] : {std::pair{3, 5}, std::pair{5, 3}, std::pair{4, 4}}) {
    for (std::size_t saved_as = 0; saved_as < splits.size(); ++saved_as) {
      for (std::size_t loaded_as = 0; loaded_as < splits.size(); ++loaded_as) {
        SCOPED_TRACE(fmt::format("{} ranks, split {}, to {} ranks, split {}", from, saved_as, to, loaded_as));
        expect_resharded(from, splits[saved_as], to, splits[loaded_as]);
      }
    }
  }
}

Manifest manifest_in(fakes::MemoryObjects& objects) {
  fakes::MemoryStore store{objects};
  return storage::get_text(store, "step-10/g-1/manifest.json").and_then(parse_manifest).value();
}

TEST(ShardedState, IsWrittenInChunksOfWholeRows) {
  fakes::MemoryObjects objects;
  save(objects, 3, even);
  std::vector<std::string> rows;
  for (const Receipt& receipt : manifest_in(objects).receipts) {
    for (const Chunk& chunk : receipt.chunks) {
      if (chunk.entry == "optimizer.matrix")
        rows.push_back(fmt::format("{}: {} to {}", receipt.rank, chunk.row_begin, chunk.row_end));
    }
  }
  EXPECT_THAT(rows, testing::ElementsAre("0: 0 to 4", "0: 4 to 8", "0: 8 to 12", "1: 12 to 16", "1: 16 to 20",
                                         "1: 20 to 24", "2: 24 to 28", "2: 28 to 32", "2: 32 to 36", "2: 36 to 37"));
}

TEST(ShardedState, IsFoundDamagedWhicheverChunkIs) {
  fakes::MemoryObjects objects;
  save(objects, 3, uneven);
  int count = 0;
  const Manifest manifest = manifest_in(objects);
  for (const Receipt& receipt : manifest.receipts) {
    for (const Chunk& chunk : receipt.chunks) {
      if (!chunk.entry.starts_with("optimizer.") || chunk.bytes == 0) continue;
      std::byte& byte = objects.objects.at(data_key(manifest, receipt.rank)).at(chunk.offset + chunk.bytes / 2);
      byte ^= std::byte{4};
      on_every_rank(2, objects, [&](TestRun& run) {
        shard(run, even);
        const auto restored = run.as_attempt(2).restore();
        ASSERT_FALSE(restored);
        EXPECT_EQ(restored.error().kind, ErrorKind::corrupt);
        EXPECT_THAT(restored.error().message, HasSubstr("the checksum of " + chunk.entry + " does not match"));
      });
      byte ^= std::byte{4};
      ++count;
    }
  }
  EXPECT_GT(count, 20);
}

TEST(ShardedState, IsNotSavedWhereTheRanksDoNotHoldEveryRowOnce) {
  struct Case {
    Split split;
    std::string fault;
  };
  const std::array<Case, 2> cases = {
      Case{[](std::uint64_t rank, std::uint64_t, std::uint64_t) -> Rows {
             return rank == 1 ? Rows{2, 3} : Rows{0, rank == 0 ? 1U : 0U};
           },
           "do not hold each row of optimizer.few (3 rows) exactly once: no rank holds rows [1, 2); next: rank 1"},
      Case{[](std::uint64_t, std::uint64_t, std::uint64_t row_count) {
             return Rows{0, row_count};
           },
           "rank 0 holds rows [0, 3), and rank 1 holds rows [0, 3)"}};
  for (const Case& one : cases) {
    fakes::MemoryObjects objects;
    on_every_rank(3, objects, [&](TestRun& run) {
      const auto rank = static_cast<std::uint64_t>(run.communicator->rank());
      run.extend = [&](TestState& state) {
        state.add_sharded("optimizer.few", "I64", {3, 2}, 8, one.split(rank, 3, 3));
      };
      ASSERT_TRUE(run.restore());
      const auto saved = run.save(10);
      ASSERT_FALSE(saved);
      EXPECT_EQ(saved.error().kind, ErrorKind::internal);
      EXPECT_THAT(saved.error().message, HasSubstr(one.fault));
    });
    EXPECT_EQ(objects.objects.size(), 1U) << "only the claim";
  }
}

/// Entries that are whole on every rank, with the names, shapes and types of those that shard() adds.
void keep_whole(TestRun& run) {
  run.chunk_bytes_max = chunk_bytes_max;
  run.large_rows = 1;
  run.extend = [](TestState& state) {
    state.add_replicated("optimizer.matrix", "F32", {37, 6}, 4);
    state.add_replicated("optimizer.vector", "BF16", {211}, 2);
    state.add_replicated("optimizer.few", "I64", {3, 2}, 8);
    state.add_replicated("optimizer.wide", "F32", {4, 50}, 4);
    state.add_replicated("optimizer.none", "F32", {0, 4}, 4);
    state.add_replicated("optimizer.thin", "F32", {5, 0}, 4);
    state.add_replicated("optimizer.scalar", "F32", {}, 4);
  };
}

TEST(ShardedState, IsLoadedByRanksThatKeepItWholeAndTheOtherWayRound) {
  for (const bool is_cut_first : {true, false}) {
    for (const auto& [from, to] : {std::pair{2, 3}, std::pair{3, 1}, std::pair{1, 4}}) {
      SCOPED_TRACE(fmt::format("{} ranks to {}", from, to));
      fakes::MemoryObjects objects;
      on_every_rank(from, objects, [&](TestRun& run) {
        is_cut_first ? shard(run, uneven) : keep_whole(run);
        ASSERT_TRUE(run.restore());
        ASSERT_TRUE(run.save(10));
      });
      on_every_rank(to, objects, [&, from = from](TestRun& run) {
        is_cut_first ? keep_whole(run) : shard(run, uneven);
        const auto restored = run.as_attempt(2).restore();
        ASSERT_TRUE(restored) << restored.error().message;
        ASSERT_TRUE(*restored);
        expect_state(run, from);
      });
    }
  }
}

TEST(ShardedState, DoesNotFitAStateOfAnotherShape) {
  fakes::MemoryObjects objects;
  save(objects, 2, even);
  TestRun run{objects};
  run.large_rows = 1;
  run.extend = [](TestState& state) { state.add_sharded("optimizer.matrix", "F32", {37, 7}, 4, {0, 37}); };
  const auto restored = run.as_attempt(2).restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("optimizer.matrix is F32 [37, 6] in it, and F32 [37, 7] here"));
}

}  // namespace
}  // namespace trainyard::checkpoint
