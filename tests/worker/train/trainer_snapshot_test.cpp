// Snapshots of a training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "checkpoint/snapshot/history.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

using api::WhenBusy;
using snapshot::History;
using snapshot::Over;

/// A run that logs each step, saves every second step (and waits for the save before), and makes a snapshot every
/// `every` steps.
class ShowingRun : public SavingRun {
 public:
  ShowingRun(std::int64_t world_size, std::int64_t max_steps, std::int64_t every)
      : SavingRun{world_size, max_steps, WhenBusy::wait} {
    run.training.log_every.steps = 1;
    make_snapshots(every);
  }

  std::vector<snapshot::Snapshot> snapshots() {
    fakes::MemoryStore store{objects};
    std::vector<snapshot::Snapshot> all;
    const auto shelf = snapshot::list_snapshots(store);
    for (const auto& listed : shelf->snapshots) all.push_back(snapshot::read_snapshot(store, listed.id).value());
    return all;
  }
  /// The points that are not superseded and that a resumed run repeats bit-equal. Sums over an epoch are left out,
  /// because a resumed run begins them again.
  std::vector<snapshot::Point> history() {
    fakes::MemoryStore store{objects};
    const auto shelf = snapshot::list_snapshots(store);
    History history{shelf->claims};
    for (const auto& each : snapshots()) history.add(each);
    std::vector<snapshot::Point> points;
    for (const auto& found : history.points()) {
      if (found.point.over != Over::epoch) points.push_back(found.point);
    }
    return points;
  }
};

using Told = std::map<std::pair<std::string, Over>, Steps>;

TEST(TrainerSnapshots, HoldTheValuesThatAreLoggedOverAllRanks) {
  for (const std::int64_t world_size : {1, 2}) {
    ShowingRun showing{world_size, 7, 3};
    showing.run.training_samples = 50 * world_size;  // 5 steps an epoch.
    showing.run.run();
    EXPECT_EQ(showing.run.ranks[0].end.reason, "Completed") << showing.run.ranks[0].end.message;
    Told told;
    double images = 0.0;
    double last_loss = 0.0;
    for (const auto& each : showing.snapshots()) {
      EXPECT_EQ(each.id.generation, 1);
      EXPECT_EQ(each.attempt, 1);
      for (const auto& point : each.points) {
        const bool is_new = told[{point.name, point.over}].insert(point.step).second;
        EXPECT_TRUE(is_new) << point.name << " twice";
        if (point.name == "images") images = point.value;
        if (point.name == "loss" && point.over == Over::steps) last_loss = point.value;
      }
    }
    EXPECT_EQ(told, (Told{{{"loss", Over::steps}, {1, 2, 3, 4, 5, 6, 7}},
                          {{"loss", Over::epoch}, {5}},
                          {{"images", Over::epoch}, {5}},
                          {{"val_loss", Over::validation}, {5, 7}},
                          {{"val_accuracy", Over::validation}, {5, 7}}}));
    EXPECT_EQ(images, static_cast<double>(50 * world_size));
    EXPECT_EQ(last_loss, showing.run.ranks[0].link->reports().back().loss);
    EXPECT_EQ(showing.snapshots().back().id.step, 7);
    EXPECT_EQ(showing.snapshots().back().epoch, 2);
  }
}

TEST(TrainerSnapshots, HoldTheLastOfEachImageWithTheStepThatShowedIt) {
  ShowingRun showing{2, 5, 100};
  showing.run.checkpoint->every.steps = 100;  // Only one snapshot, at the end.
  showing.run.run();
  const auto snapshots = showing.snapshots();
  ASSERT_EQ(snapshots.size(), 1U);
  ASSERT_EQ(snapshots[0].images.size(), 2U);
  EXPECT_EQ(snapshots[0].images[0].name, "inputs");
  EXPECT_EQ(snapshots[0].images[0].step, 5);
  EXPECT_EQ(snapshots[0].images[0].width, 4 * 28 + 3 * 2);
  EXPECT_EQ(snapshots[0].images[1].name, "validation");
  EXPECT_EQ(snapshots[0].images[1].step, 5);
  EXPECT_EQ(snapshots[0].images[1].width, 28);
}

TEST(TrainerSnapshots, HaveNoGapAfterARunThatFailed) {
  for (const std::int64_t every : {3, 100}) {
    ShowingRun whole{2, 9, every};
    whole.run.run();
    ASSERT_FALSE(whole.history().empty());

    ShowingRun failing{2, 9, every};
    for (auto& rank : failing.run.ranks) {
      rank.module->on_step = [seen = 0](std::int64_t) mutable {
        if (++seen == 8) throw std::runtime_error{"a bug of the model's"};
      };
    }
    failing.run.run();
    EXPECT_EQ(failing.run.ranks[0].end.reason, "Threw");

    ShowingRun next{2, 9, every};
    next.objects.objects = failing.objects.objects;
    next.run.attempt = 2;
    next.run.run();
    EXPECT_EQ(next.run.ranks[0].end.reason, "Completed") << next.run.ranks[0].end.message;
    EXPECT_EQ(next.history(), whole.history());
    EXPECT_EQ(next.snapshots().back().id, (snapshot::SnapshotId{.step = 9, .generation = 2}));
    EXPECT_EQ(next.snapshots().back().attempt, 2);
  }
}

TEST(TrainerSnapshots, HoldUpNoStepHoweverSlowTheStoreIs) {
  ShowingRun showing{2, 8, 1};
  fakes::Gate gate;
  showing.on_put([&gate](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key.starts_with("snapshots/")) gate.pass();
    return std::nullopt;
  });
  showing.at_step(0, 8, [&gate] { gate.open(); });  // Never reached if a step waited for the store.
  showing.run.run();
  EXPECT_EQ(showing.run.ranks[0].end.reason, "Completed");
  EXPECT_EQ(showing.snapshots().back().id.step, 8);
  Steps steps;
  for (const auto& point : showing.history()) steps.insert(point.step);
  EXPECT_EQ(steps, (Steps{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(TrainerSnapshots, OfAStoreThatFailsStopNothing) {
  ShowingRun showing{2, 8, 1};
  showing.on_put([](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (!key.starts_with("snapshots/")) return std::nullopt;
    return Error{ErrorKind::forbidden, "no right to write there", std::nullopt};
  });
  showing.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(showing.run.ranks[rank].end.reason, "Completed");
    EXPECT_EQ(showing.saved(rank), (Steps{2, 4, 6, 8}));
  }
  EXPECT_TRUE(showing.snapshots().empty());
}

TEST(TrainerSnapshots, EndWithOneWhereTheRunWasAskedToStop) {
  ShowingRun showing{2, 100, 50};
  showing.at_step(1, 4, [&showing] { showing.run.ranks[1].link->request_stop(); });
  showing.run.run();
  EXPECT_EQ(showing.run.ranks[0].end.exit_code, contract::exit_preempted);
  const auto last = showing.snapshots().back();
  EXPECT_THAT(showing.run.ranks[0].end.message, testing::HasSubstr(fmt::format("after step {},", last.id.step)));
  EXPECT_EQ(last.points.back().step, last.id.step);
}

class ModelOfItsOwn final : public Module {
 public:
  using Module::log_image;
  StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
};

TEST(LogImage, ThrowsForAWrongShapeAlsoWithoutSnapshots) {
  ModelOfItsOwn model;
  EXPECT_NO_THROW(model.log_image("samples", torch::zeros({3, 28, 28})));
  try {
    model.log_image("samples", torch::zeros({28, 28}));
    FAIL() << "it was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("log_image(\"samples\")"));
    EXPECT_THAT(error.what(), testing::HasSubstr("this one is Float [28, 28]"));
  }
}

}  // namespace
}  // namespace trainyard::train
