// Saves while training goes on, and saves that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/thread_group.hpp"
#include "tests/worker/checkpoint/a_checkpointer.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

bool no_stop() {
  return false;
}

/// A store whose removals wait for `gate`.
std::unique_ptr<storage::Store> with_held_removals(fakes::MemoryObjects& objects, fakes::Gate& gate) {
  return std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&gate](std::string_view call, std::string_view, auto) -> std::optional<Error> {
        if (call == "remove") gate.pass();
        return std::nullopt;
      });
}

// A store whose checkpoints' files wait at `gate`.
std::unique_ptr<storage::Store> held_up(fakes::MemoryObjects& objects, fakes::Gate& gate) {
  return std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&gate](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
        if (call == "put" && key.starts_with(checkpoints_prefix)) gate.pass();
        return std::nullopt;
      });
}

TEST_F(ACheckpointer, RefusesOnAllRanksWhatOneRankCannotSave) {
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    State state = a_state(1);
    const auto checkpointer = open(communicator);
    ASSERT_TRUE(checkpointer->restore(state));
    if (communicator.rank() == 1) state.entries[3].tensor = torch::eye(3).to_sparse();
    const auto done = save(*checkpointer, state, 10);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::invalid);
    EXPECT_THAT(done.error().message, HasSubstr("rank 1: type.BFloat16 cannot be saved"));
  });
}

TEST_F(ACheckpointer, WritesTheStateAsItWasWhenTheSaveWasBegun) {
  fakes::MemoryObjects objects;
  for (const std::int64_t world_size : {1, 2}) {
    objects.objects.clear();
    fakes::Gate gate;
    std::latch have_changed{world_size};
    fakes::ThreadGroup group{world_size};
    group.run([&](Communicator& communicator) {
      const auto checkpointer = open(held_up(objects, gate), communicator);
      State state = a_state(1);
      ASSERT_TRUE(checkpointer->restore(state));
      checkpointer->begin_save(state, 10, {});
      gate.wait_for_arrival();
      EXPECT_TRUE(checkpointer->is_saving());
      EXPECT_FALSE(checkpointer->take_outcome());
      for (const Entry& entry : state.entries) entry.tensor.zero_();
      have_changed.arrive_and_wait();
      gate.open();
      const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
      ASSERT_TRUE(outcome && outcome->saved && *outcome->saved);
      EXPECT_EQ(outcome->step, 10);
      EXPECT_FALSE(checkpointer->is_saving());
      EXPECT_FALSE(checkpointer->take_outcome()) << "an outcome is given once";
    });
    fakes::ThreadGroup again{world_size};
    again.run([&](Communicator& communicator) {
      State state = a_state(2);
      const auto found = open(std::make_unique<fakes::MemoryStore>(objects), communicator, 2)->restore(state);
      ASSERT_TRUE(found) << found.error().message;
      expect_equal(state, a_state(1));
    });
  }
}

TEST_F(ACheckpointer, ReportsASaveAndEndsWhileARemovalHangs) {
  fakes::MemoryObjects objects;
  fakes::Gate gate;
  State state = a_state(1);
  const auto checkpointer = open(with_held_removals(objects, gate), single);
  ASSERT_TRUE(checkpointer->restore(state));
  for (const std::int64_t step : {10, 20, 30, 40, 50}) ASSERT_TRUE(save(*checkpointer, state, step));
  gate.wait_for_arrival();
  ASSERT_TRUE(save(*checkpointer, state, 60)) << "while a removal hangs";
  EXPECT_TRUE(checkpointer->end(no_stop)) << "as a run ends that was asked to stop";
  EXPECT_TRUE(objects.objects.contains("generations/1.end"));
  gate.open();
}

TEST_F(ACheckpointer, EndsAFinalRunThatIsAskedToStopWhileARemovalHangs) {
  fakes::MemoryObjects objects;
  fakes::Gate gate;
  State state = a_state(1);
  const auto checkpointer = open(with_held_removals(objects, gate), single);
  ASSERT_TRUE(checkpointer->restore(state));
  for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(save(*checkpointer, state, step));
  checkpointer->begin_save(state, 50, {.is_final = true});
  ASSERT_TRUE(checkpointer->take_outcome(std::chrono::minutes{1}));
  gate.wait_for_arrival();
  int looks = 0;
  EXPECT_TRUE(checkpointer->end([&looks] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3) << "it waits for the removal until then";
  EXPECT_TRUE(objects.objects.contains("generations/1.end"));
  gate.open();
}

TEST_F(ACheckpointer, HasTidiedUpOnceAFinalRunHasEnded) {
  fakes::MemoryObjects objects;
  State state = a_state(1);
  const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), single);
  ASSERT_TRUE(checkpointer->restore(state));
  for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(save(*checkpointer, state, step));
  checkpointer->begin_save(state, 50, {.is_final = true});
  ASSERT_TRUE(checkpointer->take_outcome(std::chrono::minutes{1}));
  ASSERT_TRUE(checkpointer->end(no_stop));
  for (const std::int64_t step : {10, 20})
    EXPECT_FALSE(objects.objects.contains(manifest_key({step, 1}))) << "three are kept";
  EXPECT_TRUE(objects.objects.contains(manifest_key({30, 1})));
}

TEST_F(ACheckpointer, KeepsWhatTheSpecSays) {
  struct Row {
    std::string_view name;
    api::KeepSpec keep;
    std::vector<std::int64_t> kept;  // Those of the steps 10 to 60 that are kept.
  };
  const auto best = [](api::BestMode mode, std::int64_t count) {
    return api::KeepBestSpec{.metric = "score", .mode = mode, .count = count};
  };
  const Row rows[] = {
      {"the last three", {}, {40, 50, 60}},
      {"the last two", {.last = 2}, {50, 60}},
      {"each 30th step", {.last = 2, .every = {.steps = 30}}, {30, 50, 60}},
      {"each second epoch", {.last = 2, .every = {.epochs = 2}}, {20, 40, 50, 60}},
      {"the highest score", {.last = 2, .best = best(api::BestMode::max, 1)}, {20, 50, 60}},
      {"the two highest scores", {.last = 2, .best = best(api::BestMode::max, 2)}, {20, 30, 50, 60}},
      {"the lowest score", {.last = 2, .best = best(api::BestMode::min, 1)}, {10, 50, 60}},
  };
  const double scores[] = {0.1, 0.9, 0.8, 0.2, 0.3, 0.4};
  for (const Row& row : rows) {
    fakes::MemoryObjects objects;
    api::CheckpointSpec of_row = spec();
    of_row.keep = row.keep;
    const auto opened =
        open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), of_row, identity, single, clock);
    ASSERT_TRUE(opened) << row.name;
    Checkpointer& checkpointer = **opened;
    State state = a_state(1);
    ASSERT_TRUE(checkpointer.restore(state));
    for (const std::int64_t epoch : {1, 2, 3, 4, 5, 6}) {
      const double score = scores[epoch - 1];
      state.values = {{"step", 10 * epoch}, {"epoch", epoch}, {"samples", 0}, {"metrics", {{"score", score}}}};
      checkpointer.begin_save(state, 10 * epoch, {.is_final = epoch == 6});
      ASSERT_TRUE(checkpointer.take_outcome(std::chrono::minutes{1})->saved);
    }
    ASSERT_TRUE(checkpointer.end(no_stop));
    std::vector<std::int64_t> kept;
    for (const std::int64_t step : {10, 20, 30, 40, 50, 60}) {
      if (objects.objects.contains(manifest_key({step, 1}))) kept.push_back(step);
    }
    EXPECT_EQ(kept, row.kept) << row.name;
  }
}

TEST_F(ACheckpointer, TellsTheStoragesTroubleOnlyWhileItSaves) {
  fakes::MemoryObjects objects;
  fakes::Gate gate;
  auto store = held_up(objects, gate);
  dynamic_cast<fakes::FaultyStore&>(*store).trouble_of = [] { return std::string{"the store is away"}; };
  const auto checkpointer = open(std::move(store), single);
  State state = a_state(1);
  ASSERT_TRUE(checkpointer->restore(state));
  EXPECT_EQ(checkpointer->trouble(), "") << "no save is under way";
  checkpointer->begin_save(state, 10, {});
  gate.wait_for_arrival();
  EXPECT_EQ(checkpointer->trouble(), "the store is away");
  gate.open();
  ASSERT_TRUE(checkpointer->take_outcome(std::chrono::minutes{1}));
  EXPECT_EQ(checkpointer->trouble(), "");
}

TEST_F(ACheckpointer, ResumesFromAnotherJobOnlyWhereTheSpecDoesNotForbidIt) {
  for (const auto mode : {api::ResumeMode::automatic, api::ResumeMode::none}) {
    fakes::MemoryObjects objects;
    State state = a_state(1);
    {
      const auto first = open(std::make_unique<fakes::MemoryStore>(objects), single);
      ASSERT_TRUE(first->restore(state));
      ASSERT_TRUE(save(*first, state, 10));
      ASSERT_TRUE(first->end(no_stop));
    }
    api::CheckpointSpec of_second = spec();
    of_second.resume = mode;
    Identity second = identity;
    second.job = "team/b";
    second.job_uid = "another uid";
    const auto opened =
        open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), of_second, second, single, clock);
    ASSERT_TRUE(opened);
    const auto restored = (*opened)->restore(state);
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->has_value(), mode == api::ResumeMode::automatic);
  }
}

TEST_F(ACheckpointer, OfARunByHandGivesSignsOfLifeAndOthersGiveNone) {
  for (const bool is_by_hand : {true, false}) {
    fakes::MemoryObjects objects;
    fakes::Gate gate;
    State state = a_state(1);
    Identity who = identity;
    if (is_by_hand) who.job_uid.clear();
    auto store = std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          EXPECT_TRUE(is_by_hand || !key.ends_with(".alive")) << call;
          if (key == "generations/1.alive") gate.pass();
          return std::nullopt;
        });
    const auto checkpointer = open_checkpointer(std::move(store), spec(), who, single, clock);
    ASSERT_TRUE(checkpointer);
    gate.open();
    ASSERT_TRUE((*checkpointer)->restore(state));
    if (is_by_hand) gate.wait_for_arrival();
    const auto beside = open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), spec(), who, single, clock);
    EXPECT_EQ((*beside)->restore(state).has_value(), !is_by_hand);
  }
}

TEST_F(ACheckpointer, HasStagedSteadyEntriesOnceStagingIsFinished) {
  fakes::MemoryObjects objects;
  fakes::Gate gate;
  State state = a_state(1);
  for (Entry& entry : state.entries) entry.is_steady = true;
  const auto checkpointer = open(held_up(objects, gate), single);
  ASSERT_TRUE(checkpointer->restore(state));
  checkpointer->finish_staging();  // None was begun.
  checkpointer->begin_save(state, 10, {});
  checkpointer->finish_staging();
  checkpointer->finish_staging();
  EXPECT_TRUE(checkpointer->is_saving()) << "it waits for the copy only";
  for (const Entry& entry : state.entries) entry.tensor.zero_();
  gate.open();
  const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
  ASSERT_TRUE(outcome && outcome->saved && *outcome->saved);
  State restored = a_state(2);
  ASSERT_TRUE(open(std::make_unique<fakes::MemoryStore>(objects), single, 2)->restore(restored));
  expect_equal(restored, a_state(1));
}

TEST_F(ACheckpointer, FollowsAStateWhoseShapesChange) {
  State state = a_state(1);
  const auto first = open(single);
  ASSERT_TRUE(first->restore(state));
  std::int64_t step = 0;
  for (const std::int64_t rows : {5056, 20, 1024}) {
    state.entries.back().tensor = torch::randint(0, 256, {rows}, torch::kUInt8);
    ASSERT_TRUE(save(*first, state, ++step));
  }
  State restored = a_state(2);
  restored.entries.back().tensor = torch::zeros({1024}, torch::kUInt8);
  ASSERT_TRUE(open(single, 2)->restore(restored));
  expect_equal(restored, state);
}

TEST_F(ACheckpointer, LeavesOutAStateThatIsNotSoundOnAnyRankUnlessItIsFinal) {
  struct Row {
    std::string_view name;
    bool is_loss_finite;  // On rank 1.
    bool is_weight_finite;
    bool is_final;
    bool is_saved;
  };
  const Row rows[] = {
      {"all is finite", true, true, false, true},
      {"one rank's loss is not", false, true, false, false},
      {"a weight is not", true, false, false, false},
      {"nothing is, at the training's end", false, false, true, true},
  };
  for (const Row& row : rows) {
    fakes::MemoryObjects objects;
    fakes::ThreadGroup group{2};
    group.run([&](Communicator& communicator) {
      const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), communicator);
      State state;
      // The last row of the large one is rank 1's to write, and to look at.
      state.entries.push_back({"model.w", Placement::replicated, torch::ones({1024, 700}), true});
      state.entries.push_back({"optimizer.w", Placement::replicated, torch::full({3}, INFINITY), false});
      if (!row.is_weight_finite) state.entries[0].tensor[1023][699] = std::nan("");
      ASSERT_TRUE(checkpointer->restore(state));
      checkpointer->begin_save(state, 10,
                               {.is_final = row.is_final, .is_sound = row.is_loss_finite || communicator.rank() == 0});
      const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
      ASSERT_TRUE(outcome && outcome->saved) << row.name;
      EXPECT_EQ(outcome->saved->has_value(), row.is_saved) << row.name;
      EXPECT_EQ(outcome->left_out, row.is_saved ? "" : "loss or parameters are not finite") << row.name;
    });
  }
}

TEST_F(ACheckpointer, LeavesOutAlsoAFinalStateThatChangedWhileItWasStaged) {
  fakes::MemoryObjects objects;
  const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), single);
  State state;
  state.entries.push_back({"model.w", Placement::replicated, torch::ones({4096, 1024})});
  state.entries[0].is_steady = true;
  ASSERT_TRUE(checkpointer->restore(state));
  // The copy may be whole before this thread gets to change the state.
  constexpr int tries_max = 50;
  for (std::int64_t step = 1; step <= tries_max; ++step) {
    checkpointer->begin_save(state, step, {.is_final = true});
    state.entries[0].tensor.add_(1);
    const auto outcome = checkpointer->take_outcome(std::chrono::minutes{1});
    ASSERT_TRUE(outcome && outcome->saved);
    EXPECT_EQ(objects.objects.contains(manifest_key({step, 1})), outcome->left_out.empty());
    if (outcome->left_out.empty()) continue;
    EXPECT_EQ(outcome->left_out, "parameters or optimizer state were changed outside the optimizer's step");
    return;
  }
  FAIL() << "no save of " << tries_max << " noticed that the state changed meanwhile";
}

TEST_F(ACheckpointer, FailsOnAllRanksWhenOneCannotWriteAndSavesTheNext) {
  fakes::MemoryObjects objects;
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    int failures_left = communicator.rank() == 1 ? 2 : 0;
    const auto checkpointer =
        open(std::make_unique<fakes::FaultyStore>(
                 std::make_unique<fakes::MemoryStore>(objects),
                 [&](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                   if (call != "put" || failures_left == 0) return std::nullopt;
                   --failures_left;
                   return Error{ErrorKind::io, "no space left on device", std::nullopt};
                 }),
             communicator);
    State state = a_state(1);
    ASSERT_TRUE(checkpointer->restore(state));
    for (const std::int64_t step : {10, 20}) {
      const auto failed = save(*checkpointer, state, step);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error(), (Error{ErrorKind::io, "rank 1: no space left on device", std::nullopt}));
    }
    EXPECT_TRUE(save(*checkpointer, state, 30));
  });
}

TEST_F(ACheckpointer, SaysThatTheRanksHaveLostEachOtherAndNotThatTheStorageFails) {
  fakes::MemoryObjects objects;
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    const auto checkpointer = open(std::make_unique<fakes::MemoryStore>(objects), communicator);
    State state = a_state(1);
    ASSERT_TRUE(checkpointer->restore(state));
    if (communicator.rank() == 1) return;
    const auto failed = save(*checkpointer, state, 10);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::cancelled);
  });
}

}  // namespace
}  // namespace trainyard::checkpoint
