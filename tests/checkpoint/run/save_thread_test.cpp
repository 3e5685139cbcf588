#include "checkpoint/run/save_thread.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/gate.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;

SaveOutcome done(std::int64_t step) {
  return {.step = step, .saved = Saved{.step = step, .uri = "memory://", .time = {}, .bytes = 1}};
}

TEST(SaveThread, HasNoOutcomeBeforeTheFirstSave) {
  SaveThread save_thread;
  EXPECT_FALSE(save_thread.is_busy());
  EXPECT_FALSE(save_thread.take_outcome(1min)) << "at once";
}

TEST(SaveThread, DoesNotBlockItsCallerAndGivesTheOutcomeOnce) {
  SaveThread save_thread;
  for (std::int64_t step = 1; step <= 3; ++step) {
    fakes::Gate gate;
    save_thread.start([&gate, step] {
      gate.pass();
      return done(step);
    });
    gate.wait_for_arrival();
    EXPECT_TRUE(save_thread.is_busy());
    EXPECT_FALSE(save_thread.take_outcome()) << "it is not waited for";
    gate.open();
    const auto outcome = save_thread.take_outcome(1min);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->step, step);
    EXPECT_FALSE(save_thread.is_busy());
    EXPECT_FALSE(save_thread.take_outcome());
  }
}

TEST(SaveThread, KeepsTheOutcomeOfASaveThatEndedUnseen) {
  SaveThread save_thread;
  save_thread.start([] { return SaveOutcome{.step = 7, .saved = fail(ErrorKind::io, "full")}; });
  while (save_thread.is_busy()) std::this_thread::yield();
  const auto outcome = save_thread.take_outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->saved.error().kind, ErrorKind::io);
}

TEST(SaveThread, EndsOnlyAfterTheSaveUnderWay) {
  fakes::Gate gate;
  std::atomic<bool> has_ended = false;
  std::jthread opener;
  {
    SaveThread save_thread;
    save_thread.start([&] {
      gate.pass();
      has_ended = true;
      return done(1);
    });
    gate.wait_for_arrival();
    opener = std::jthread{[&gate] { gate.open(); }};
  }
  EXPECT_TRUE(has_ended);
}

TEST(SaveThread, SavesARunOnEveryRankWhileTheRanksTrain) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    SaveThread save_thread;
    std::int64_t saved_step = 0;
    for (;;) {
      if (save_thread.is_busy()) continue;
      if (const auto outcome = save_thread.take_outcome()) {
        ASSERT_TRUE(outcome->saved) << outcome->saved.error().message;
        saved_step = outcome->step;
      }
      if (saved_step == 5) break;
      save_thread.start([&run, next = saved_step + 1] {
        auto saved = run.save(next);
        return SaveOutcome{.step = next, .saved = saved.map([](const Saved& s) { return std::optional{s}; })};
      });
    }
  });
  on_every_rank(2, objects, [](TestRun& run) {
    const auto restored = run.as_attempt(2).restore();
    ASSERT_TRUE(restored && *restored);
    EXPECT_EQ((*restored)->step, 5);
    EXPECT_TRUE(run.holds_state_after(5));
  });
}

}  // namespace
}  // namespace trainyard::checkpoint
