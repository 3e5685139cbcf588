#include "checkpoint/snapshot/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "checkpoint/snapshot/history.hpp"
#include "tests/checkpoint/snapshot/unencoded_snapshots.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::snapshot {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 60s;
using Steps = std::vector<std::int64_t>;

class ARecorder : public testing::Test {
 protected:
  /// `on_put`: what becomes of the put of a step; nothing: it is done.
  std::unique_ptr<Recorder> open(std::function<std::optional<Error>(std::int64_t step)> on_put = nullptr,
                                 Limits limits = {}, bool is_conditional = true) {
    return std::make_unique<Recorder>(
        std::make_unique<fakes::FaultyStore>(std::make_unique<fakes::MemoryStore>(objects, is_conditional),
                                             [on_put = std::move(on_put)](std::string_view call, std::string_view key,
                                                                          storage::Pieces) -> std::optional<Error> {
                                               if (call != "put" || !on_put) return std::nullopt;
                                               return on_put(checkpoint::parse_snapshot_key(key)->step);
                                             }),
        clock, limits);
  }
  std::optional<Snapshot> snapshot(std::int64_t step) {
    fakes::MemoryStore store{objects};
    auto read = read_snapshot(store, {.step = step, .generation = 1});
    return read ? std::optional{std::move(*read)} : std::nullopt;
  }
  /// The steps whose losses are in the snapshot of `step`.
  Steps losses_in(std::int64_t step) {
    Steps steps;
    if (const auto read = snapshot(step)) {
      for (const Point& point : read->points) steps.push_back(point.step);
    }
    return steps;
  }

  fakes::MemoryObjects objects;
  fakes::FakeClock clock;
};

const Error away{ErrorKind::unavailable, "the store is away", std::nullopt};

TEST_F(ARecorder, WritesEachSnapshotAsOneObject) {
  const auto recorder = open();
  for (const std::int64_t step : {10, 20}) {
    UnencodedSnapshot unencoded = an_unencoded(step);
    unencoded.images = {an_image("a")};
    recorder->record(unencoded);
    ASSERT_TRUE(recorder->finish(patience));
    EXPECT_EQ(snapshot(step), encode(unencoded).snapshot);
  }
  EXPECT_EQ(objects.objects.size(), 2U);
}

TEST_F(ARecorder, ReturnsAtOnceAndWritesWhatCameMeanwhileAsOne) {
  fakes::Gate gate;
  const auto recorder = open([&](std::int64_t step) -> std::optional<Error> {
    if (step == 10) gate.pass();
    return std::nullopt;
  });
  recorder->record(an_unencoded(10));
  gate.wait_for_arrival();
  for (const std::int64_t step : {20, 30, 40}) recorder->record(an_unencoded(step));
  EXPECT_FALSE(recorder->finish(0ms));
  gate.open();
  ASSERT_TRUE(recorder->finish(patience));
  EXPECT_EQ(objects.objects.size(), 2U);
  EXPECT_EQ(losses_in(10), (Steps{10}));
  EXPECT_EQ(losses_in(40), (Steps{20, 30, 40}));
}

TEST_F(ARecorder, LosesNothingOverAStoreThatFails) {
  std::atomic<bool> is_away = true;
  const auto recorder = open([&](std::int64_t) { return is_away ? std::optional{away} : std::nullopt; });
  for (const std::int64_t step : {10, 20}) {
    recorder->record(an_unencoded(step));
    EXPECT_FALSE(recorder->finish(patience));
  }
  EXPECT_TRUE(objects.objects.empty());
  is_away = false;
  recorder->record(an_unencoded(30));
  ASSERT_TRUE(recorder->finish(patience));
  EXPECT_EQ(objects.objects.size(), 1U);
  EXPECT_EQ(losses_in(30), (Steps{10, 20, 30}));
}

TEST_F(ARecorder, GivesWhatFailedToTheOneThatWaits) {
  fakes::Gate gate;
  const auto recorder = open([&](std::int64_t step) -> std::optional<Error> {
    if (step != 10) return std::nullopt;
    gate.pass();
    return away;
  });
  recorder->record(an_unencoded(10));
  gate.wait_for_arrival();
  recorder->record(an_unencoded(20));
  gate.open();
  ASSERT_TRUE(recorder->finish(patience));
  EXPECT_EQ(losses_in(20), (Steps{10, 20}));
}

TEST_F(ARecorder, TriesWhatFailedLastOnceMoreAtTheEnd) {
  std::atomic<int> puts = 0;
  const auto recorder = open([&](std::int64_t) { return ++puts == 1 ? std::optional{away} : std::nullopt; });
  recorder->record(an_unencoded(10));
  EXPECT_TRUE(recorder->finish(patience));
  EXPECT_EQ(puts, 2);
  EXPECT_EQ(losses_in(10), (Steps{10}));
}

TEST_F(ARecorder, TakesAnObjectWhoseReplyWasLostForWritten) {
  fakes::MemoryStore store{objects};
  ASSERT_TRUE(storage::put_text(store, "snapshots/g-1/step-10.json", to_text(encode(an_unencoded(10)).snapshot)));
  const auto recorder = open();
  recorder->record(an_unencoded(10));
  EXPECT_TRUE(recorder->finish(patience));
}

TEST_F(ARecorder, OverwritesNothingThatSomebodyElseLeftAndLosesNothingOverIt) {
  fakes::MemoryStore store{objects};
  ASSERT_TRUE(storage::put_text(store, "snapshots/g-1/step-10.json", "another run's"));
  const auto recorder = open();
  recorder->record(an_unencoded(10));
  EXPECT_FALSE(recorder->finish(patience));
  EXPECT_EQ(storage::get_text(store, "snapshots/g-1/step-10.json"), "another run's");
  recorder->record(an_unencoded(20));
  EXPECT_TRUE(recorder->finish(patience));
  EXPECT_EQ(losses_in(20), (Steps{10, 20}));
}

TEST_F(ARecorder, NeedsNoConditionalCreate) {
  const auto recorder = open(nullptr, {}, /*is_conditional=*/false);
  recorder->record(an_unencoded(10));
  EXPECT_TRUE(recorder->finish(patience));
  EXPECT_EQ(losses_in(10), (Steps{10}));
}

TEST_F(ARecorder, HoldsNoMoreThanItsLimitsHoweverLongTheStoreIsAway) {
  std::atomic<bool> is_away = true;
  const Limits limits{.points_max = 50, .images_max = 4, .image_bytes_max = 6 * 6};
  const auto recorder = open([&](std::int64_t) { return is_away ? std::optional{away} : std::nullopt; }, limits);
  for (std::int64_t step = 1; step <= 300; ++step) {
    UnencodedSnapshot unencoded = an_unencoded(step);
    unencoded.images = {an_image(std::to_string(step % 10), step)};
    recorder->record(unencoded);
    EXPECT_FALSE(recorder->finish(step % 10 == 0 ? patience : 0s));
  }
  is_away = false;
  ASSERT_TRUE(recorder->finish(patience));
  ASSERT_EQ(objects.objects.size(), 1U);
  const auto written = snapshot(300);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->points.size(), 50U);
  EXPECT_EQ(written->points.front(), a_loss(251));
  EXPECT_EQ(written->dropped_points, 250);
  EXPECT_EQ(written->images.size(), 4U);
  EXPECT_EQ(written->images.front().step, 300);
}

TEST_F(ARecorder, WritesWhatItHoldsBeforeItIsDestroyed) {
  fakes::Gate gate;
  auto recorder = open([&](std::int64_t) -> std::optional<Error> {
    gate.pass();
    return std::nullopt;
  });
  recorder->record(an_unencoded(10));
  gate.wait_for_arrival();
  recorder->record(an_unencoded(20));
  gate.open();
  recorder.reset();
  EXPECT_EQ(objects.objects.size(), 2U);
}

}  // namespace
}  // namespace trainyard::snapshot
