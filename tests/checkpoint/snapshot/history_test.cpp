#include "checkpoint/snapshot/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/run/fence.hpp"
#include "tests/checkpoint/snapshot/unencoded_snapshots.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::snapshot {
namespace {

using checkpoint::Claim;
using testing::HasSubstr;

Claim claim(std::int64_t generation, std::optional<checkpoint::CheckpointId> resumed_from) {
  Claim made;
  made.generation = generation;
  made.identity = {.job = "team/a", .job_uid = "uid", .attempt = generation, .fingerprint = "same"};
  made.resumed_from = resumed_from;
  made.nonce = std::to_string(generation);
  return made;
}

Claim open_claim(std::int64_t generation) {
  Claim made = claim(generation, {});
  made.is_open = true;
  return made;
}

const Claim first = claim(1, {});

TEST(Judge, TakesAGenerationForCurrentOnlyUpToWhereLaterOnesResumed) {
  constexpr auto all = Standing::current;
  constexpr auto part = Standing::in_part;
  constexpr auto none = Standing::superseded;
  struct Row {
    std::string_view name;
    std::vector<Claim> claims;
    std::vector<Listed> expected;  // In order.
  };
  const Row rows[] = {
      {"nothing is there", {first}, {}},
      {"one generation", {first}, {{{10, 1}, 1, all}, {{20, 1}, 2, all}}},
      {"steps are numbers", {first}, {{{9, 1}, 1, all}, {{10, 1}, 2, all}, {{100, 1}, 3, all}}},
      {"the next run resumed from a step that has a snapshot",
       {first, claim(2, checkpoint::CheckpointId{20, 1})},
       {{{10, 1}, 1, all}, {{20, 1}, 2, all}, {{30, 1}, 3, none}, {{30, 2}, 4, all}}},
      {"it resumed from a step between two",
       {first, claim(2, checkpoint::CheckpointId{25, 1})},
       {{{20, 1}, 1, all}, {{30, 1}, 2, part}, {{40, 1}, 3, none}, {{30, 2}, 4, all}}},
      {"from a step before the first",
       {first, claim(2, checkpoint::CheckpointId{5, 1})},
       {{{10, 1}, 1, part}, {{20, 1}, 2, none}}},
      {"it began afresh", {first, claim(2, {})}, {{{10, 1}, 1, none}, {{10, 2}, 2, all}}},
      {"what it begins from is open", {first, open_claim(2)}, {{{10, 1}, 1, all}}},
      {"a fence holds for good",
       {first, claim(2, checkpoint::CheckpointId{10, 1}), claim(3, checkpoint::CheckpointId{20, 2})},
       {{{10, 1}, 1, all}, {{20, 1}, 2, none}, {{20, 2}, 3, all}, {{30, 2}, 4, none}, {{30, 3}, 5, all}}},
  };
  for (const Row& row : rows) {
    std::vector<Listed> listed = row.expected;
    for (Listed& each : listed) each.standing = all;
    std::reverse(listed.begin(), listed.end());
    EXPECT_EQ(judge(listed, row.claims), row.expected) << row.name;
  }
}

Snapshot holding(const SnapshotId& id, std::vector<Point> points) {
  Snapshot snapshot;
  snapshot.id = id;
  snapshot.points = std::move(points);
  return snapshot;
}

TEST(History, HoldsEachCurrentPointOnce) {
  struct Row {
    std::string_view name;
    std::vector<Claim> claims;
    std::vector<Snapshot> snapshots;
    std::vector<History::RunPoint> expected;
  };
  const Claim second = claim(2, checkpoint::CheckpointId{20, 1});
  const Row rows[] = {
      {"nothing", {first}, {}, {}},
      {"in order of steps, whatever they come in",
       {first},
       {holding({20, 1}, {a_loss(15), a_loss(20)}), holding({10, 1}, {a_loss(5)})},
       {{a_loss(5), 1}, {a_loss(15), 1}, {a_loss(20), 1}}},
      {"what the older wrote beyond the step from which the newer resumed is superseded",
       {first, second},
       {holding({20, 1}, {a_loss(20, 1)}), holding({30, 1}, {a_loss(25, 1), a_loss(30, 1)}),
        holding({30, 2}, {a_loss(30, 2)})},
       {{a_loss(20, 1), 1}, {a_loss(30, 2), 2}}},
      {"of one that reaches beyond, the points before are current",
       {first, second},
       {holding({30, 1}, {a_loss(15), a_loss(20), a_loss(25)})},
       {{a_loss(15), 1}, {a_loss(20), 1}}},
      {"a point in two snapshots is one",
       {first},
       {holding({10, 1}, {a_loss(10)}), holding({20, 1}, {a_loss(10), a_loss(20)})},
       {{a_loss(10), 1}, {a_loss(20), 1}}},
      {"the newer generation's value at the step from which it resumed is the one",
       {first, second},
       {holding({21, 2}, {a_loss(20, 2)}), holding({20, 1}, {a_loss(20, 1)})},
       {{a_loss(20, 2), 2}}},
  };
  for (const Row& row : rows) {
    History history{row.claims};
    for (const Snapshot& snapshot : row.snapshots) history.add(snapshot);
    EXPECT_EQ(history.points(), row.expected) << row.name;
  }
}

TEST(History, DistinguishesValuesOfOneNameByTheirOver) {
  const std::vector<Point> points = {{.name = "loss", .over = Over::steps, .step = 5, .value = 1},
                                     {.name = "loss", .over = Over::epoch, .step = 5, .value = 2},
                                     {.name = "loss", .over = Over::validation, .step = 5, .value = 3}};
  History history{{}};
  history.add(holding({5, 1}, points));
  EXPECT_EQ(history.points().size(), 3U);
}

class AShelf : public testing::Test {
 protected:
  void put(const SnapshotId& id) {
    UnencodedSnapshot unencoded = an_unencoded(id.step, id.generation);
    ASSERT_TRUE(storage::put_text(store, checkpoint::snapshot_key(id), to_text(encode(unencoded).snapshot)));
  }

  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
};

TEST_F(AShelf, IsListedWithoutReadingASnapshotOrLookingAtCheckpoints) {
  ASSERT_TRUE(checkpoint::put_claim(store, first));
  put({10, 1});
  put({20, 1});
  ASSERT_TRUE(checkpoint::put_claim(store, claim(2, checkpoint::CheckpointId{10, 1})));
  put({20, 2});
  ASSERT_TRUE(storage::put_text(store, "snapshots/g-1/notes.txt", "mine"));
  fakes::FaultyStore watched{std::make_unique<fakes::MemoryStore>(objects),
                             [](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
                               EXPECT_FALSE(call == "get" && key.starts_with("snapshots/")) << key;
                               EXPECT_FALSE(call == "list" && key != "snapshots/" && key != "generations/") << key;
                               return std::nullopt;
                             }};
  const auto shelf = list_snapshots(watched);
  ASSERT_TRUE(shelf) << shelf.error().message;
  std::vector<SnapshotId> ids;
  for (const Listed& listed : shelf->snapshots) ids.push_back(listed.id);
  EXPECT_EQ(ids, (std::vector<SnapshotId>{{10, 1}, {20, 1}, {20, 2}}));
  EXPECT_EQ(shelf->snapshots[1].standing, Standing::superseded);
  EXPECT_EQ(shelf->claims.size(), 2U);
}

TEST_F(AShelf, ReadsASnapshotAndNamesOneThatCannotBeRead) {
  put({10, 1});
  EXPECT_EQ(read_snapshot(store, {10, 1})->points, std::vector{a_loss(10)});
  EXPECT_EQ(read_snapshot(store, {11, 1}).error().kind, ErrorKind::not_found);
  ASSERT_TRUE(storage::put_text(store, "snapshots/g-1/step-20.json", "{"));
  const auto torn = read_snapshot(store, {20, 1});
  EXPECT_EQ(torn.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(torn.error().message, HasSubstr("memory://snapshots/g-1/step-20.json"));
  const auto text = storage::get_text(store, "snapshots/g-1/step-10.json");
  ASSERT_TRUE(storage::put_text(store, "snapshots/g-1/step-30.json", *text));
  EXPECT_EQ(read_snapshot(store, {30, 1}).error().kind, ErrorKind::corrupt);
}

}  // namespace
}  // namespace trainyard::snapshot
