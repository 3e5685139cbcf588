#include "worker/train/schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::train {
namespace {

using api::Every;
using api::TrainingSpec;

/// 100 samples by 2 ranks of batch 10: five steps an epoch.
Schedule make_schedule(const TrainingSpec& training, const Every& checkpoint_every = {}) {
  return Schedule{training, checkpoint_every, 100, 2};
}

TrainingSpec training(std::optional<std::int64_t> epochs, std::optional<std::int64_t> max_steps) {
  TrainingSpec spec;
  spec.batch_size = 10;
  spec.epochs = epochs;
  spec.max_steps = max_steps;
  return spec;
}

Position after_steps(const Schedule& schedule, std::int64_t steps) {
  Position position;
  for (std::int64_t step = 0; step < steps; ++step) position = schedule.next(position);
  return position;
}

TEST(Schedule, EndsByEpochsOrStepsWhicheverComesFirst) {
  struct Case {
    std::string what;
    std::optional<std::int64_t> epochs, max_steps;
    std::int64_t steps, shown_epochs;
  };
  const std::vector<Case> cases{{"nothing set: one epoch", {}, {}, 5, 1},
                                {"epochs", 3, {}, 15, 3},
                                {"steps in the middle of the second epoch", {}, 7, 7, 2},
                                {"steps before epochs", 3, 7, 7, 2},
                                {"epochs before steps", 1, 100, 5, 1},
                                {"steps to the end of the second epoch", {}, 10, 10, 2},
                                {"one step", {}, 1, 1, 1}};
  for (const Case& c : cases) {
    const Schedule schedule = make_schedule(training(c.epochs, c.max_steps));
    for (std::int64_t step = 0; step < c.steps; ++step) {
      const Position position = after_steps(schedule, step);
      EXPECT_FALSE(schedule.is_finished(position)) << c.what << ", step " << step;
      EXPECT_EQ(schedule.total_steps(position), c.steps) << c.what << ", step " << step;
      EXPECT_EQ(schedule.epochs(position), c.shown_epochs) << c.what << ", step " << step;
    }
    EXPECT_TRUE(schedule.is_finished(after_steps(schedule, c.steps))) << c.what;
    EXPECT_EQ(schedule.epochs(after_steps(schedule, c.steps)), c.shown_epochs) << c.what;
    EXPECT_EQ(schedule.samples_left(after_steps(schedule, c.steps)), 0) << c.what;
  }
}

TEST(Schedule, OfEpochsThatEndByThemselvesKnowsOnlyWhatTheJobSays) {
  struct Case {
    std::optional<std::int64_t> epochs, max_steps;
    std::optional<std::int64_t> shown_epochs, total_steps, samples_left;
  };
  const Position position{.step = 4, .epoch = 1, .samples = 20};
  for (const Case& c : {Case{{}, {}, 1, 4, 0}, Case{3, {}, 3, {}, {}}, Case{{}, 9, {}, 9, 100}, Case{3, 9, {}, 9, 100},
                        Case{1, 9, {}, 4, 0}}) {
    const Schedule schedule{training(c.epochs, c.max_steps), {}, std::nullopt, 2};
    const std::string what =
        std::to_string(c.epochs.value_or(0)) + " epochs, " + std::to_string(c.max_steps.value_or(0)) + " steps";
    EXPECT_EQ(schedule.epochs(position), c.shown_epochs) << what;
    EXPECT_EQ(schedule.total_steps(position), c.total_steps) << what;
    EXPECT_EQ(schedule.samples_left(position), c.samples_left) << what;
    EXPECT_EQ(schedule.is_finished(position), c.samples_left == 0) << what;
  }
}

TEST(Schedule, MakesSnapshotsAtEachMultipleAndOnlyWhereTheyAreAskedFor) {
  TrainingSpec spec = training(2, {});
  const auto due_steps = [&] {
    const Schedule schedule = make_schedule(spec);
    std::vector<std::int64_t> steps;
    for (std::int64_t step = 0; step <= 10; ++step) {
      if (schedule.is_snapshot_due(after_steps(schedule, step))) steps.push_back(step);
    }
    return steps;
  };
  EXPECT_TRUE(due_steps().empty());
  spec.snapshots.emplace();
  EXPECT_TRUE(due_steps().empty()) << "every 500";
  spec.snapshots->every = {.steps = 4, .epochs = 1, .time = {}};
  EXPECT_EQ(due_steps(), (std::vector<std::int64_t>{4, 5, 8, 10}));
}

TEST(Schedule, KnowsTheEpochOfAStep) {
  const Schedule schedule = make_schedule(training(2, {}));
  const std::vector<std::pair<std::int64_t, std::int64_t>> step_and_epoch = {{0, 1}, {1, 1}, {5, 1}, {6, 2}, {10, 2}};
  for (const auto& [step, epoch] : step_and_epoch) {
    EXPECT_EQ(Schedule::epoch_of(after_steps(schedule, step)), epoch) << step;
  }
}

TEST(Schedule, CountsAShortLastStepOfAnEpoch) {
  TrainingSpec spec = training(2, {});
  spec.batch_size = 30;
  const Schedule schedule = make_schedule(spec);
  EXPECT_EQ(schedule.total_steps({}), 4);
  const Position middle = schedule.next({});
  EXPECT_EQ(middle, (Position{.step = 1, .epoch = 0, .samples = 60}));
  const Position end = schedule.next(middle);
  EXPECT_EQ(end, (Position{.step = 2, .epoch = 1, .samples = 0}));
  EXPECT_EQ(schedule.end_in_epoch(end) - middle.samples, 40);
  EXPECT_EQ(schedule.samples_left(middle), 140);
  EXPECT_TRUE(schedule.is_epoch_end(end));
}

TEST(Schedule, KnowsTheSamplesThatAreLeftWhereEpochsEndWithAShortStep) {
  struct Case {
    std::string what;
    std::optional<std::int64_t> epochs, max_steps;
    std::int64_t step, samples_left;
  };
  // An epoch of 100 samples is two steps of 40 and one of 20.
  const std::vector<Case> cases{{"whole epochs", 3, {}, 0, 300},
                                {"whole epochs, from the middle of one", 3, {}, 4, 160},
                                {"before the short step", 3, {}, 2, 220},
                                {"steps within one epoch", {}, 2, 0, 80},
                                {"steps to the end of an epoch", {}, 3, 0, 100},
                                {"steps into the third epoch", {}, 7, 0, 240},
                                {"steps into the third epoch, from the middle of the first", {}, 8, 1, 240},
                                {"steps before epochs", 4, 7, 0, 240},
                                {"epochs before steps", 2, 100, 1, 160},
                                {"the end", {}, 7, 7, 0}};
  for (const Case& c : cases) {
    TrainingSpec spec = training(c.epochs, c.max_steps);
    spec.accumulate_grad_batches = 2;
    const Schedule schedule = make_schedule(spec);
    EXPECT_EQ(schedule.samples_left(after_steps(schedule, c.step)), c.samples_left) << c.what;
  }
}

TEST(Schedule, IsDueAtEachMultipleOfAnyPart) {
  TrainingSpec spec = training(4, {});
  spec.log_every = {.steps = 3, .epochs = {}, .time = {}};
  spec.validate_every = Every{.steps = {}, .epochs = 2, .time = {}};
  const Schedule schedule = make_schedule(spec, {.steps = 4, .epochs = 1, .time = {}});
  std::vector<std::int64_t> logs, validations, checkpoints;
  for (std::int64_t step = 0; step <= 20; ++step) {
    const Position position = after_steps(schedule, step);
    if (schedule.is_log_due(position)) logs.push_back(step);
    if (schedule.is_validation_due(position)) validations.push_back(step);
    if (schedule.is_checkpoint_due(position)) checkpoints.push_back(step);
  }
  EXPECT_EQ(logs, (std::vector<std::int64_t>{3, 6, 9, 12, 15, 18}));
  EXPECT_EQ(validations, (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(checkpoints, (std::vector<std::int64_t>{4, 5, 8, 10, 12, 15, 16, 20}));
}

TEST(Schedule, ValidatesAndSavesAfterEachEpochWhereNothingIsSet) {
  const Schedule schedule = make_schedule(training(2, {}));
  EXPECT_TRUE(schedule.is_validation_due(after_steps(schedule, 5)));
  EXPECT_TRUE(schedule.is_checkpoint_due(after_steps(schedule, 5)));
  EXPECT_FALSE(schedule.is_checkpoint_due(after_steps(schedule, 4)));
}

TEST(Schedule, SavesOnlyAfterEachNthEpochWhereOnlyEpochsAreSet) {
  const Schedule schedule = make_schedule(training(4, {}), {.steps = {}, .epochs = 2, .time = {}});
  std::vector<std::int64_t> checkpoints;
  for (std::int64_t step = 0; step <= 20; ++step) {
    if (schedule.is_checkpoint_due(after_steps(schedule, step))) checkpoints.push_back(step);
  }
  EXPECT_EQ(checkpoints, (std::vector<std::int64_t>{10, 20}));
}

TEST(Schedule, TrainsOnTheLastSampleOfAnEpochAlsoWhereItIsAlone) {
  for (const std::int64_t samples : {39, 40, 41}) {
    const Schedule schedule{training(1, {}), {}, samples, 2};  // Batches of 20.
    std::int64_t batches = 0;
    Position position;
    for (; !schedule.is_finished(position); position = schedule.next(position)) batches += schedule.batches(position);
    EXPECT_EQ(batches, samples > 40 ? 3 : 2) << samples;
  }
}

TEST(Schedule, LeavesCheckpointsByTimeAndAtABestToTheTrainer) {
  for (const Every& every : {Every{.time = std::chrono::minutes{5}}, Every{.best = true}}) {
    const Schedule schedule = make_schedule(training(2, {}), every);
    for (std::int64_t step = 0; step <= 10; ++step)
      EXPECT_FALSE(schedule.is_checkpoint_due(after_steps(schedule, step))) << step;
  }
}

TEST(Schedule, KeepsTheEpochsLeftWhenTheNumberOfRanksHasChanged) {
  const Position saved_by_two_ranks{.step = 7, .epoch = 1, .samples = 40};
  const Schedule of_four{training(3, {}), {}, 100, 4};
  EXPECT_EQ(of_four.total_steps(saved_by_two_ranks), 7 + 2 + 3);
  EXPECT_EQ(of_four.samples_left(saved_by_two_ranks), 160);
}

TEST(Schedule, CountsSeveralBatchesAsOneStepAndEndsAnEpochWithAStepOfTheRest) {
  TrainingSpec spec = training(2, std::nullopt);
  spec.accumulate_grad_batches = 2;  // 40 samples a step: of an epoch's 100, the third step has 20.
  const Schedule schedule = make_schedule(spec);
  EXPECT_EQ(schedule.total_steps({}), 6);
  EXPECT_EQ(schedule.batches({}), 2);
  const Position third = after_steps(schedule, 2);
  EXPECT_EQ(third, (Position{.step = 2, .epoch = 0, .samples = 80}));
  EXPECT_EQ(schedule.batches(third), 1);
  EXPECT_EQ(schedule.batch_index(third), 4);
  EXPECT_EQ(schedule.batch_begin(after_steps(schedule, 1), 1), 60);
  EXPECT_EQ(schedule.next(third), (Position{.step = 3, .epoch = 1, .samples = 0}));
}

TEST(Schedule, MakesCopiesAndChecksParametersOnlyWhereTheyAreAskedFor) {
  TrainingSpec spec = training(2, {});
  const Schedule without = make_schedule(spec);
  spec.strategy.check_parameters_every = 3;
  const Schedule with{spec, {.epochs = 1}, 100, 2, /*copies_every=*/{.steps = 4}};
  std::vector<std::int64_t> copies, checks;
  for (std::int64_t step = 0; step <= 10; ++step) {
    const Position position = after_steps(with, step);
    if (with.is_copy_due(position)) copies.push_back(step);
    if (with.is_parameter_check_due(position)) checks.push_back(step);
    EXPECT_FALSE(without.is_copy_due(position) || without.is_parameter_check_due(position)) << step;
  }
  EXPECT_EQ(copies, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(checks, (std::vector<std::int64_t>{3, 6, 9}));
}

TEST(Schedule, IsOverWhereACheckpointHasMoreStepsOrEpochsThanTheJob) {
  const Position saved{.step = 19, .epoch = 3, .samples = 80};
  for (const Schedule& schedule : {make_schedule(training({}, 7)), make_schedule(training(2, {}))}) {
    EXPECT_TRUE(schedule.is_finished(saved));
    EXPECT_EQ(schedule.total_steps(saved), 19);
    EXPECT_EQ(schedule.epochs(saved), 4);
    EXPECT_EQ(schedule.samples_left(saved), 0);
  }
}

}  // namespace
}  // namespace trainyard::train
