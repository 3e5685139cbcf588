// Runs that begin from another place's checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AnOrigin : public testing::Test {
 protected:
  // Another job's, of another model's name or other data, which still runs. It saved at steps 10 and 20.
  void SetUp() override {
    on_every_rank(2, theirs, [](TestRun& run) {
      run.as_job("other", "another fingerprint");
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
      ASSERT_TRUE(run.save(20));
    });
    before = theirs.objects;
  }

  // No test may change anything in the other place.
  void TearDown() override { EXPECT_EQ(theirs.objects, before); }

  Result<std::optional<Restored>> begin(TestRun& run, std::optional<CheckpointId> id = std::nullopt) {
    run.origin.emplace(Origin{.store = store, .id = id});
    return run.restore();
  }

  void expect_refused(ErrorKind kind, const testing::Matcher<std::string>& message,
                      std::optional<CheckpointId> id = std::nullopt) {
    on_every_rank(2, ours, [&](TestRun& run) {
      const auto restored = begin(run, id);
      ASSERT_FALSE(restored);
      EXPECT_EQ(restored.error().kind, kind);
      EXPECT_THAT(restored.error().message, message);
    });
    EXPECT_TRUE(ours.objects.empty()) << "nothing is claimed";
  }

  fakes::MemoryObjects theirs;
  fakes::MemoryStore store{theirs, true, "origin://"};
  std::map<std::string, std::vector<std::byte>, std::less<>> before;
  fakes::MemoryObjects ours;
};

TEST_F(AnOrigin, IsWhereARunBeginsThatHasNothingOfItsOwn) {
  on_every_rank(3, ours, [&](TestRun& run) {
    const auto restored = begin(run);
    ASSERT_TRUE(restored) << restored.error().message;
    ASSERT_TRUE(*restored);
    EXPECT_EQ((*restored)->step, 20);
    EXPECT_EQ((*restored)->uri, "origin://step-20/g-1");
    EXPECT_EQ((*restored)->world_size, 2);
    if (run.communicator->rank() < 2) {
      EXPECT_TRUE(run.holds_state_after(20));
    }
    ASSERT_TRUE(run.save(30));
  });
  EXPECT_TRUE(ours.objects.contains("step-30/g-1/manifest.json"));
}

TEST_F(AnOrigin, MayBeOneCheckpointThatIsNamed) {
  TestRun run{ours};
  const auto restored = begin(run, CheckpointId{.step = 10, .generation = 1});
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->uri, "origin://step-10/g-1");
  EXPECT_TRUE(run.holds_state_after(10));
}

TEST_F(AnOrigin, IsNotReadOnceTheRunHasACheckpointOfItsOwn) {
  TestRun first{ours};
  ASSERT_TRUE(begin(first));
  TestRun second{ours};
  EXPECT_EQ(begin(second.as_attempt(2)).value()->uri, "origin://step-20/g-1") << "the first one saved nothing";
  ASSERT_TRUE(second.save(5));
  TestRun third{ours};
  fakes::FaultyStore unread{std::make_unique<fakes::MemoryStore>(theirs),
                            [](std::string_view, std::string_view, storage::Pieces) -> std::optional<Error> {
                              return Error{ErrorKind::internal, "the origin was looked at", std::nullopt};
                            }};
  third.origin.emplace(Origin{.store = unread, .id = std::nullopt});
  const auto restored = third.as_attempt(3).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->uri, "memory://step-5/g-2") << "also where it is of an earlier step";
  EXPECT_TRUE(third.holds_state_after(5));
}

TEST_F(AnOrigin, IsNotReportedOnceACheckpointThatTheRunBeforeSavedLateIsLoadedOverIt) {
  TestRun first{ours};
  ASSERT_TRUE(begin(first));
  bool has_met = false;
  TestRun second{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(ours),
      [&](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
        // The origin's checkpoint is loaded by then.
        const bool is_claim = call == "put" && key == "generations/2.json";
        if (is_claim && !std::exchange(has_met, true)) {
          EXPECT_TRUE(first.save(5));
        }
        return std::nullopt;
      })};
  const auto restored = begin(second.as_attempt(2));
  ASSERT_TRUE(restored) << restored.error().message;
  ASSERT_TRUE(*restored);
  EXPECT_EQ((*restored)->uri, "memory://step-5/g-1");
  EXPECT_TRUE(second.holds_state_after(5));
}

TEST_F(AnOrigin, IsNoWayOutWhereTheRunsOwnCheckpointsAreDamaged) {
  TestRun first{ours};
  ASSERT_TRUE(begin(first));
  ASSERT_TRUE(first.save(30));
  ours.objects.erase(data_key_in(ours, {30, 1}, 0));
  TestRun second{ours};
  EXPECT_THAT(begin(second.as_attempt(2)).error().message,
              HasSubstr("none of the 1 checkpoints in memory:// is whole"));
}

TEST_F(AnOrigin, GivesTheOneBeforeADamagedOne) {
  theirs.objects.at(data_key_in(theirs, {20, 1}, 1)).back() ^= std::byte{1};
  before = theirs.objects;
  TestRun run{ours};
  const auto restored = begin(run);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->step, 20) << "one rank reads none of rank 1's own";
  fakes::MemoryObjects empty;
  on_every_rank(2, empty, [&](TestRun& both) {
    const auto earlier = begin(both);
    ASSERT_TRUE(earlier) << earlier.error().message;
    EXPECT_EQ((*earlier)->step, 10);
    EXPECT_THAT((*earlier)->skipped, testing::ElementsAre(HasSubstr("origin://step-20/g-1/rank-1-")));
  });
}

TEST_F(AnOrigin, IsNamedWhereItHoldsNothing) {
  theirs.objects.clear();
  before.clear();
  expect_refused(ErrorKind::not_found, HasSubstr("beginning from origin://: there is no complete checkpoint"));
}

TEST_F(AnOrigin, IsNamedWhereTheOneAskedForIsNotThere) {
  expect_refused(ErrorKind::corrupt,
                 AllOf(HasSubstr("beginning from origin://step-15/g-1: "), HasSubstr("manifest.json is not there")),
                 CheckpointId{.step = 15, .generation = 1});
}

TEST_F(AnOrigin, IsNamedWhereTheOneAskedForIsDamaged) {
  theirs.objects.at(data_key_in(theirs, {20, 1}, 0)).back() ^= std::byte{1};
  before = theirs.objects;
  expect_refused(ErrorKind::corrupt, AllOf(HasSubstr("beginning from origin://step-20/g-1: "), HasSubstr("checksum")),
                 CheckpointId{.step = 20, .generation = 1});
}

TEST_F(AnOrigin, IsNamedWithTheFirstDifferenceWhereItsStateDoesNotFit) {
  TestRun run{ours};
  run.extend = [](TestState& state) { state.add_device_generator(); };
  EXPECT_TRUE(begin(run)) << "ranks' own may be missing";
  TestRun other{ours};
  other.extend = [](TestState& state) { state.add_sharded("model.more", "F32", {3}, 4, {0, 3}); };
  const auto refused = begin(other.as_attempt(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("beginning from origin://: "),
                                             HasSubstr("does not fit this model: model.more is not in it")));
}

TEST_F(AnOrigin, ThatIsAwayIsNoDamage) {
  fakes::FaultyStore away{std::make_unique<fakes::MemoryStore>(theirs),
                          [](std::string_view, std::string_view, storage::Pieces) -> std::optional<Error> {
                            return Error{ErrorKind::unavailable, "no route", std::nullopt};
                          }};
  TestRun run{ours};
  run.origin.emplace(Origin{.store = away, .id = std::nullopt});
  EXPECT_EQ(run.restore().error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(ours.objects.empty());
}

}  // namespace
}  // namespace trainyard::checkpoint
