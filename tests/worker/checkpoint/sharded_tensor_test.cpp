// Tensors that are cut over the ranks, through the whole checkpointer.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/thread_group.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/host_state.hpp"
#include "worker/checkpoint/staging.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

constexpr std::int64_t row_count = 11;

struct Cut {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Cut cut_of(std::int64_t rank, std::int64_t world_size) {
  return {row_count * rank / world_size, row_count * (rank + 1) / world_size};
}

// Rows of the whole tensor, not contiguous: columns are cut away.
at::Tensor rows_of(const at::Tensor& whole, const Cut& cut) {
  return whole.slice(0, cut.begin, cut.end).slice(1, 0, 3);
}

at::Tensor whole_tensor() {
  return at::arange(row_count * 5, at::kFloat).view({row_count, 5});
}

State state_of(const at::Tensor& shard, const Cut& cut) {
  State state;
  state.entries.push_back({"weight", Placement::replicated, at::ones({4})});
  state.entries.push_back({.name = "optimizer.shard",
                           .placement = Placement::sharded,
                           .tensor = shard,
                           .shard = Shard{.row_begin = cut.begin, .row_count = row_count}});
  return state;
}

std::unique_ptr<Checkpointer> open(fakes::MemoryObjects& objects, Communicator& communicator, const Clock& clock,
                                   std::int64_t attempt) {
  const Identity identity{.job = "team/a", .job_uid = "uid", .attempt = attempt, .fingerprint = "f"};
  auto opened = open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), {}, identity, communicator, clock);
  return std::move(opened.value());
}

TEST(ShardedTensors, AreRestoredInPlaceByAnotherNumberOfRanks) {
  for (const auto& [from, to] : {std::pair{1, 3}, std::pair{3, 2}, std::pair{2, 14}}) {
    fakes::MemoryObjects objects;
    const fakes::FakeClock clock;
    fakes::ThreadGroup savers{from};
    savers.run([&](Communicator& communicator) {
      const Cut cut = cut_of(communicator.rank(), communicator.world_size());
      State state = state_of(rows_of(whole_tensor(), cut), cut);
      const auto checkpointer = open(objects, communicator, clock, 1);
      ASSERT_TRUE(checkpointer->restore(state));
      checkpointer->begin_save(state, 10, {});
      const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
      ASSERT_TRUE(outcome && outcome->saved) << outcome->saved.error().message;
    });
    fakes::ThreadGroup loaders{to};
    loaders.run([&](Communicator& communicator) {
      const Cut cut = cut_of(communicator.rank(), communicator.world_size());
      const at::Tensor target = at::zeros({row_count, 5});
      State state = state_of(rows_of(target, cut), cut);
      const auto restored = open(objects, communicator, clock, 2)->restore(state);
      ASSERT_TRUE(restored) << restored.error().message;
      ASSERT_TRUE(*restored);
      EXPECT_TRUE(at::equal(rows_of(target, cut), rows_of(whole_tensor(), cut)));
    });
  }
}

TEST(ShardedTensors, AreDescribedWholeAndHeldInPart) {
  const Cut cut{.begin = 2, .end = 5};
  const State state = state_of(rows_of(whole_tensor(), cut), cut);
  const auto host = HostState::of(state);
  ASSERT_TRUE(host) << host.error().message;
  Staging staging{1, 3};
  ASSERT_TRUE(staging.stage(state));
  for (const HostEntry& entry : {host->entries()[1], staging.entries()[1]}) {
    EXPECT_EQ(entry.info.shape, (std::vector<std::int64_t>{row_count, 3}));
    EXPECT_EQ(entry.info.bytes, 11U * 3 * 4);
    EXPECT_EQ(entry.rows, (Rows{2, 5}));
    EXPECT_EQ(entry.bytes.size(), 3U * 3 * 4);
  }
}

TEST(ShardedTensors, GetNewBuffersWhenTheRanksDivideThemOtherwise) {
  Staging staging{0, 2};
  for (const Cut& cut : {Cut{.begin = 0, .end = 4}, Cut{.begin = 0, .end = 6}, Cut{.begin = 5, .end = 11}}) {
    ASSERT_TRUE(staging.stage(state_of(rows_of(whole_tensor(), cut), cut)));
    const HostEntry& entry = staging.entries()[1];
    EXPECT_EQ(entry.rows, (Rows{static_cast<std::uint64_t>(cut.begin), static_cast<std::uint64_t>(cut.end)}));
    EXPECT_EQ(reinterpret_cast<const float*>(entry.bytes.data())[0], static_cast<float>(cut.begin * 5));
  }
}

TEST(ShardedTensors, OfAScalarHaveOneRowOrNone) {
  for (const std::int64_t rows : {0, 1}) {
    State state;
    state.entries.push_back({.name = "optimizer.shard",
                             .placement = Placement::sharded,
                             .tensor = at::full({rows}, 7.0),
                             .shard = Shard{.row_begin = 1 - rows, .row_count = 1, .is_of_scalar = true}});
    const auto host = HostState::of(state);
    ASSERT_TRUE(host) << host.error().message;
    const HostEntry& entry = host->entries()[0];
    EXPECT_TRUE(entry.info.shape.empty());
    EXPECT_EQ(entry.info.bytes, 4U);
    EXPECT_EQ(entry.rows, (Rows{static_cast<std::uint64_t>(1 - rows), 1}));
    EXPECT_EQ(entry.bytes.size(), static_cast<std::size_t>(4 * rows));
  }
}

TEST(ShardedTensors, HaveRows) {
  const auto refused = HostState::of(state_of(at::ones({}), {.begin = 0, .end = 1}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("optimizer.shard cannot be sharded: it is a scalar"));
}

}  // namespace
}  // namespace trainyard::checkpoint
