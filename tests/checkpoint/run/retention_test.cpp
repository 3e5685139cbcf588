// Tests which checkpoints are removed when newer ones come, in which order, and that nobody waits for it.
#include "checkpoint/run/retention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/run/inventory.hpp"
#include "checkpoint/run/superseded.hpp"
#include "checkpoint/run/sweeper.hpp"
#include "tests/checkpoint/run/local_nodes.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;

std::vector<CheckpointId> present_in(fakes::MemoryObjects& objects) {
  fakes::MemoryStore store{objects};
  return list_checkpoints(store)->present;
}

void put_text_of_people(fakes::MemoryObjects& objects, const std::string& key) {
  fakes::MemoryStore store{objects};
  ASSERT_TRUE(storage::put_text(store, key, "mine"));
}

class ARetention : public testing::Test {
 protected:
  using OnRemove = std::function<std::optional<Error>(std::string_view key)>;

  std::unique_ptr<storage::Store> store_that(OnRemove on_remove) {
    return std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [on_remove = std::move(on_remove)](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          return call == "remove" ? on_remove(key) : std::nullopt;
        });
  }

  fakes::MemoryObjects objects;
};

TEST_F(ARetention, RemovesEveryManifestBeforeAnyDataFile) {
  std::mutex mutex;  // guards removed
  std::vector<std::string> removed;
  TestRun run{store_that([&](std::string_view key) -> std::optional<Error> {
    const std::scoped_lock lock{mutex};
    removed.emplace_back(key);
    return std::nullopt;
  })};
  ASSERT_TRUE(run.restore());
  run.tidies_up = false;
  for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(run.save(step));
  const std::string data10 = data_key_in(objects, {10, 1}, 0);
  const std::string data20 = data_key_in(objects, {20, 1}, 0);
  run.tidy_up();
  ASSERT_EQ(removed.size(), 4U);
  EXPECT_THAT((std::vector<std::string>{removed.begin(), removed.begin() + 2}),
              testing::UnorderedElementsAre("step-10/g-1/manifest.json", "step-20/g-1/manifest.json"));
  EXPECT_THAT((std::vector<std::string>{removed.begin() + 2, removed.end()}),
              testing::UnorderedElementsAre(data10, data20));
}

TEST_F(ARetention, ThatFailsAtAnyRemovalLeavesNoManifestWithoutItsFiles) {
  for (int fatal = 1; fatal <= 4; ++fatal) {
    objects.objects.clear();
    std::atomic<int> removals = 0;
    TestRun run{store_that([&](std::string_view) -> std::optional<Error> {
      if (++removals != fatal) return std::nullopt;
      return Error{ErrorKind::unavailable, "away", std::nullopt};
    })};
    ASSERT_TRUE(run.restore());
    run.tidies_up = false;
    for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(run.save(step));
    run.tidy_up();
    for (const CheckpointId& id : present_in(objects)) {
      if (!objects.objects.contains(manifest_key(id))) continue;
      EXPECT_NE(data_key_in(objects, id, 0), "") << fatal;
    }
    ASSERT_TRUE(run.save(50));
    run.tidy_up();
    EXPECT_EQ(present_in(objects), (std::vector<CheckpointId>{{40, 1}, {50, 1}})) << "what was left goes with the next";
  }
}

TEST_F(ARetention, IsNoPartOfTheSave) {
  TestRun run{store_that([](std::string_view) -> std::optional<Error> {
    ADD_FAILURE() << "a save removes";
    return std::nullopt;
  })};
  run.tidies_up = false;
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30, 40}) EXPECT_TRUE(run.save(step));
  std::stop_source stop;
  stop.request_stop();
  run.tidy_up(stop.get_token());
  EXPECT_EQ(present_in(objects).size(), 4U);
}

TEST_F(ARetention, ThatHangsHoldsUpNeitherTheNextSaveNorTheStop) {
  fakes::Gate gate;
  TestRun run{store_that([&](std::string_view) -> std::optional<Error> {
    gate.pass();
    return std::nullopt;
  })};
  run.tidies_up = false;
  ASSERT_TRUE(run.restore());
  Sweeper sweeper{[&](const std::stop_token& stop) { run.tidy_up(stop); }};
  for (const std::int64_t step : {10, 20, 30}) {
    ASSERT_TRUE(run.save(step));
    sweeper.start();
  }
  gate.wait_for_arrival();
  EXPECT_TRUE(run.save(40)) << "while a removal hangs";
  EXPECT_TRUE(run.end());
  EXPECT_FALSE(sweeper.finish(0ms));
  sweeper.give_up();
  gate.open();
}

TEST_F(ARetention, GivesUpBetweenTwoBatches) {
  std::stop_source stop;
  TestRun run{store_that([&](std::string_view) -> std::optional<Error> {
    stop.request_stop();
    return std::nullopt;
  })};
  run.tidies_up = false;
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(run.save(step));
  run.tidy_up(stop.get_token());
  EXPECT_FALSE(objects.objects.contains("step-10/g-1/manifest.json"));
  EXPECT_NE(data_key_in(objects, {10, 1}, 0), "") << "it was stopped once the manifests had gone";
}

TEST_F(ARetention, RemovesNothingOnceALaterRunHasClaimed) {
  TestRun older{objects};
  older.tidies_up = false;
  ASSERT_TRUE(older.restore());
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(older.save(step));
  TestRun newer{objects};
  ASSERT_TRUE(newer.as_attempt(2).restore());
  older.tidy_up();
  EXPECT_EQ(present_in(objects).size(), 3U) << "the later run may go on from any of them";
}

TEST_F(ARetention, LeavesWhatIsBeingWrittenBesideIt) {
  TestRun run{objects};
  run.tidies_up = false;
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(run.save(step));
  fakes::MemoryStore store{objects};
  ASSERT_TRUE(storage::put_text(store, data_key({40, 1}, 0, std::string(32, '0') + "-4"), "half of the ranks"));
  run.tidy_up();
  EXPECT_EQ(present_in(objects), (std::vector<CheckpointId>{{20, 1}, {30, 1}, {40, 1}}));
}

TEST_F(ARetention, LeavesWhatPeopleHavePutBesideTheFiles) {
  TestRun run{objects};
  ASSERT_TRUE(run.restore());
  ASSERT_TRUE(run.save(10));
  for (const char* name : {"notes.txt", "rank-0-best.safetensors", "plots/loss.png"})
    put_text_of_people(objects, std::string{"step-10/g-1/"} + name);
  for (const std::int64_t step : {20, 30, 40}) ASSERT_TRUE(run.save(step));
  std::vector<std::string> left;
  for (const auto& [key, content] : objects.objects) {
    if (key.starts_with("step-10/")) left.push_back(key);
  }
  EXPECT_THAT(left, testing::ElementsAre("step-10/g-1/notes.txt", "step-10/g-1/plots/loss.png",
                                         "step-10/g-1/rank-0-best.safetensors"));
}

TEST_F(ARetention, DoesNotJudgeWhatAnotherJobSavedFromWhichThisOneResumed) {
  TestRun first{objects};
  first.keep.every_steps = 10;
  ASSERT_TRUE(first.restore());
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(first.save(step));
  ASSERT_TRUE(first.end());
  TestRun second{objects};
  ASSERT_EQ(second.as_job("b").restore().value()->step, 30);
  for (const std::int64_t step : {40, 50, 60}) ASSERT_TRUE(second.save(step));
  EXPECT_EQ(present_in(objects), (std::vector<CheckpointId>{{10, 1}, {20, 1}, {30, 1}, {50, 2}, {60, 2}}));
}

TEST_F(ARetention, LeavesWhatALaterRunSupersededForAnHour) {
  TestRun first{objects};
  ASSERT_TRUE(first.restore());
  for (const std::int64_t step : {10, 20}) ASSERT_TRUE(first.save(step));
  const auto manifest = objects.objects.extract("step-20/g-1/manifest.json");
  TestRun second{objects};
  ASSERT_EQ(second.as_attempt(2).restore().value()->step, 10) << "as if step 20 had not been seen";
  objects.objects["step-20/g-1/manifest.json"] = manifest.mapped();
  second.clock.advance(superseded_grace - 1s);
  for (const std::int64_t step : {15, 25}) ASSERT_TRUE(second.save(step));
  EXPECT_EQ(present_in(objects), (std::vector<CheckpointId>{{15, 2}, {20, 1}, {25, 2}}));
  second.clock.advance(1s);
  ASSERT_TRUE(second.save(35));
  EXPECT_EQ(present_in(objects), (std::vector<CheckpointId>{{25, 2}, {35, 2}}));
}

TEST(ALocalRetention, LeavesWhatPeopleHavePutBesideTheCopies) {
  LocalNodes nodes{{0}, 1};
  nodes.run(1, [&](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save_copies(10));
    put_text_of_people(*nodes.folders[0], "step-10/g-1/notes.txt");
    for (const std::int64_t step : {20, 30}) ASSERT_TRUE(run.save_copies(step));
  });
  EXPECT_TRUE(nodes.folders[0]->objects.contains("step-10/g-1/notes.txt"));
  EXPECT_FALSE(nodes.folders[0]->objects.contains("step-10/g-1/manifest.json"));
  EXPECT_FALSE(nodes.folders[0]->objects.contains("step-20/g-1/manifest.json"));
}

TEST(ASweeper, DoesTheTaskOnceMoreForWhatCameMeanwhile) {
  fakes::Gate gate;
  std::atomic<int> done = 0;
  Sweeper sweeper{[&](const std::stop_token&) {
    gate.pass();
    ++done;
  }};
  sweeper.start();
  gate.wait_for_arrival();
  sweeper.start();
  EXPECT_FALSE(sweeper.finish(0ms));
  gate.open();
  EXPECT_TRUE(sweeper.finish(1min));
  EXPECT_EQ(done, 2);
}

TEST(ASweeper, ThatGaveUpBeginsNothing) {
  bool has_begun = false;
  {
    Sweeper sweeper{[&](const std::stop_token&) { has_begun = true; }};
    sweeper.give_up();
    sweeper.start();
  }
  EXPECT_FALSE(has_begun);
}

}  // namespace
}  // namespace trainyard::checkpoint
