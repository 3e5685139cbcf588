#include "checkpoint/run/writer.hpp"

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

TEST(Writer, HasNoOutcomeBeforeTheFirstSave) {
  Writer writer;
  EXPECT_FALSE(writer.is_busy());
  EXPECT_FALSE(writer.take_outcome(1min)) << "at once";
}

TEST(Writer, DoesNotBlockItsCallerAndGivesTheOutcomeOnce) {
  Writer writer;
  for (std::int64_t step = 1; step <= 3; ++step) {
    fakes::Gate gate;
    writer.start([&gate, step] {
      gate.pass();
      return done(step);
    });
    gate.wait_for_arrival();
    EXPECT_TRUE(writer.is_busy());
    EXPECT_FALSE(writer.take_outcome()) << "it is not waited for";
    gate.open();
    const auto outcome = writer.take_outcome(1min);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->step, step);
    EXPECT_FALSE(writer.is_busy());
    EXPECT_FALSE(writer.take_outcome());
  }
}

TEST(Writer, KeepsTheOutcomeOfASaveThatEndedUnseen) {
  Writer writer;
  writer.start([] { return SaveOutcome{.step = 7, .saved = fail(ErrorKind::io, "full")}; });
  while (writer.is_busy()) std::this_thread::yield();
  const auto outcome = writer.take_outcome();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->saved.error().kind, ErrorKind::io);
}

TEST(Writer, EndsOnlyAfterTheSaveUnderWay) {
  fakes::Gate gate;
  std::atomic<bool> has_ended = false;
  std::jthread opener;
  {
    Writer writer;
    writer.start([&] {
      gate.pass();
      has_ended = true;
      return done(1);
    });
    gate.wait_for_arrival();
    opener = std::jthread{[&gate] { gate.open(); }};
  }
  EXPECT_TRUE(has_ended);
}

TEST(Writer, SavesARunOnEveryRankWhileTheRanksTrain) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    Writer writer;
    std::int64_t saved_step = 0;
    for (;;) {
      if (writer.is_busy()) continue;
      if (const auto outcome = writer.take_outcome()) {
        ASSERT_TRUE(outcome->saved) << outcome->saved.error().message;
        saved_step = outcome->step;
      }
      if (saved_step == 5) break;
      writer.start([&run, next = saved_step + 1] {
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
