#include "worker/train/lr_schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {
namespace {

api::TrainingSpec training_with(const api::LrScheduleSpec& schedule, double lr = 0.1) {
  api::TrainingSpec training;
  training.optimizer.lr = lr;
  training.lr_schedule = schedule;
  return training;
}

constexpr auto by_steps = [](std::int64_t steps) { return api::Every{.steps = steps, .epochs = {}, .time = {}}; };
constexpr auto by_epochs = [](std::int64_t epochs) { return api::Every{.steps = {}, .epochs = epochs, .time = {}}; };

TEST(LrFactor, IsThatOfTorchsSchedules) {
  using Name = api::LrScheduleName;
  struct Row {
    std::string what;
    api::LrScheduleSpec schedule;
    std::vector<double> rates;  // At the steps 1 to 6 of 6, with lr 0.1; computed by torch.optim.lr_scheduler.
    std::int64_t steps_per_epoch = 2;
  };
  const std::vector<Row> rows{
      {"constant", {}, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
      {"StepLR(2, 0.5)",
       {.name = Name::step, .every = by_steps(2), .factor = 0.5},
       {0.1, 0.1, 0.05, 0.05, 0.025, 0.025}},
      {"StepLR by epochs",
       {.name = Name::step, .every = by_epochs(1), .factor = 0.1},
       {0.1, 0.1, 0.1, 0.01, 0.01, 0.01},
       3},
      {"step by both",
       {.name = Name::step, .every = {.steps = 3, .epochs = 1, .time = {}}, .factor = 0.5},
       {0.1, 0.1, 0.05, 0.025, 0.0125, 0.0125}},
      {"LinearLR(1, 0.1, 6)", {.name = Name::linear, .min_lr = 0.01}, {0.1, 0.085, 0.07, 0.055, 0.04, 0.025}},
      {"CosineAnnealingLR(6)",
       {.name = Name::cosine},
       {0.1, 0.09330127018922194, 0.075, 0.05, 0.025, 0.006698729810778065}},
      {"CosineAnnealingLR(6, 0.01)",
       {.name = Name::cosine, .min_lr = 0.01},
       {0.1, 0.09397114317029974, 0.0775, 0.055, 0.0325, 0.01602885682970026}},
      {"a warm-up of 4 steps", {.warmup_steps = 4}, {0.025, 0.05, 0.075, 0.1, 0.1, 0.1}},
      {"a warm-up to a cosine",
       {.name = Name::cosine, .warmup_steps = 2},
       {0.05, 0.09330127018922194, 0.075, 0.05, 0.025, 0.006698729810778065}}};
  for (const Row& row : rows) {
    const api::TrainingSpec training = training_with(row.schedule);
    for (std::int64_t step = 0; step < 6; ++step) {
      const LrPoint point{.step = step, .epoch = step / row.steps_per_epoch, .total_steps = 6};
      EXPECT_NEAR(0.1 * lr_factor(training, point, {}), row.rates[static_cast<std::size_t>(step)], 1e-12)
          << row.what << ", step " << step + 1;
    }
  }
}

TEST(LrFactor, GrowsWithTheRanksButEndsWhereTheScheduleSays) {
  api::TrainingSpec training = training_with({.name = api::LrScheduleName::linear, .min_lr = 0.01});
  const auto rate = [&](std::int64_t step) {
    return 0.1 * lr_factor(training, {.step = step, .total_steps = 10, .world_size = 4}, {});
  };
  training.optimizer.lr_scaling = api::LrScaling::linear;
  EXPECT_DOUBLE_EQ(rate(0), 0.4);
  EXPECT_NEAR(rate(10), 0.01, 1e-12);
  training.optimizer.lr_scaling = api::LrScaling::sqrt;
  EXPECT_DOUBLE_EQ(rate(0), 0.2);
  EXPECT_NEAR(rate(10), 0.01, 1e-12);
}

TEST(ChangesLr, ByAScheduleOrByTheNumberOfRanks) {
  EXPECT_FALSE(changes_lr({}));
  EXPECT_TRUE(changes_lr(training_with({.warmup_steps = 1})));
  api::TrainingSpec scaled;
  scaled.optimizer.lr_scaling = api::LrScaling::sqrt;
  EXPECT_TRUE(changes_lr(scaled));
}

TEST(PlateauSchedule, ReducesAsReduceLrOnPlateau) {
  struct Row {
    std::string what;
    api::LrScheduleSpec schedule;
    std::vector<double> values;
    std::vector<double> rates;  // After each value; lr is 0.1.
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto plateau = [](std::int64_t patience) {
    return api::LrScheduleSpec{
        .name = api::LrScheduleName::plateau, .factor = 0.5, .metric = "m", .patience = patience, .threshold = 0.1};
  };
  auto highest = plateau(0);
  highest.mode = api::BestMode::max;
  auto bounded = plateau(0);
  bounded.min_lr = 0.04;
  auto above = plateau(0);
  above.min_lr = 0.2;
  auto barely_below = plateau(0);
  barely_below.min_lr = 0.1 - 5e-9;
  const std::vector<Row> rows{
      {"patience 1", plateau(1), {1.0, 1.0, 1.0, 1.0, 1.0}, {0.1, 0.1, 0.05, 0.05, 0.025}},
      {"patience 0", plateau(0), {1.0, 1.0, 0.5, 0.6}, {0.1, 0.05, 0.05, 0.025}},
      {"less than the threshold is no better", plateau(0), {1.0, 0.91, 0.89}, {0.1, 0.05, 0.05}},
      {"negative values", plateau(0), {-10.0, -10.0, -12.0}, {0.1, 0.05, 0.05}},
      {"max", highest, {1.0, 1.2, 1.3, 1.4}, {0.1, 0.1, 0.05, 0.05}},
      {"not below minLr", bounded, {1.0, 1.0, 1.0, 1.0}, {0.1, 0.05, 0.04, 0.04}},
      {"a minLr above lr raises nothing", above, {1.0, 1.0, 1.0}, {0.1, 0.1, 0.1}},
      {"less than 1e-8 is no change", barely_below, {1.0, 1.0, 1.0}, {0.1, 0.1, 0.1}},
      {"NaN is no better", plateau(0), {nan, 1.0, nan}, {0.05, 0.05, 0.025}},
      {"an infinite value is no better", highest, {infinity, 1.0, infinity}, {0.05, 0.05, 0.025}}};
  for (const Row& row : rows) {
    const api::TrainingSpec training = training_with(row.schedule);
    PlateauState state;
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      state = after_validation(training, 1, state, {{"m", row.values[i]}});
      EXPECT_NEAR(0.1 * lr_factor(training, {}, state), row.rates[i], 1e-12) << row.what << ", value " << i;
    }
  }
}

TEST(PlateauSchedule, ReducesTheRateOfAllRanksToMinLrAtTheLeast) {
  api::TrainingSpec training =
      training_with({.name = api::LrScheduleName::plateau, .min_lr = 0.3, .factor = 0.5, .metric = "m", .patience = 0});
  training.optimizer.lr_scaling = api::LrScaling::linear;
  PlateauState state;
  for (const double rate : {0.4, 0.3, 0.3}) {
    state = after_validation(training, /*world_size=*/4, state, {{"m", 1.0}});
    EXPECT_NEAR(0.1 * lr_factor(training, {.world_size = 4}, state), rate, 1e-12);
  }
}

TEST(LrFactor, StaysAtTheEndOfTheScheduleAfterIt) {
  for (const auto name : {api::LrScheduleName::linear, api::LrScheduleName::cosine}) {
    const api::TrainingSpec training = training_with({.name = name, .min_lr = 0.01});
    EXPECT_NEAR(0.1 * lr_factor(training, {.step = 13, .total_steps = 10}, {}), 0.01, 1e-12);
    EXPECT_NEAR(0.1 * lr_factor(training, {.step = 0, .total_steps = 0}, {}), 0.1, 1e-12);
  }
}

TEST(PlateauSchedule, ForgetsTheBestValueOfAnotherMetricOrMode) {
  const api::TrainingSpec training =
      training_with({.name = api::LrScheduleName::plateau, .metric = "val_loss", .patience = 0});
  for (const BestValue& best : {BestValue{.metric = "val_accuracy", .mode = api::BestMode::min, .value = 0.9},
                                BestValue{.metric = "val_loss", .mode = api::BestMode::max, .value = 0.9}}) {
    const PlateauState after =
        after_validation(training, 1, {.factor = 0.5, .best = best, .bad_count = 1}, {{"val_loss", 2.0}});
    EXPECT_EQ(after, (PlateauState{.factor = 0.5,
                                   .best = BestValue{.metric = "val_loss", .mode = api::BestMode::min, .value = 2.0}}));
  }
}

TEST(PlateauSchedule, NamesTheMetricsThatThereAre) {
  const api::TrainingSpec training = training_with({.name = api::LrScheduleName::plateau, .metric = "val_los"});
  const auto refusal = [&](const observe::MetricValues& values) {
    try {
      (void)after_validation(training, 1, {}, values);
    } catch (const InvalidJob& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  EXPECT_EQ(refusal({{"val_accuracy", 0.5}, {"val_loss", 1.0}}),
            "training.lrSchedule.metric: the validation has no metric 'val_los' (there is: val_accuracy, val_loss)");
  EXPECT_EQ(refusal({}),
            "training.lrSchedule.metric: there is no metric 'val_los', as the model validates nothing: give it "
            "validation data and a validation_step that logs the metric");
}

}  // namespace
}  // namespace trainyard::train
