#include "worker/train/early_stopping.hpp"
#include "worker/train/watched_metric.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {
namespace {

TEST(EarlyStopping, EndsAfterAsManyValidationsWithoutABetterValueAsThePatience) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Row {
    std::string what;
    api::EarlyStoppingSpec spec;
    std::vector<double> values;
    std::int64_t ends_after = 0;  // So many values; 0: it goes on.
  };
  const auto patient = [](std::int64_t patience, double min_delta = 0.0, api::BestMode mode = api::BestMode::min) {
    return api::EarlyStoppingSpec{.metric = "m", .mode = mode, .patience = patience, .min_delta = min_delta};
  };
  const std::vector<Row> rows{
      {"ever better", patient(1), {5, 4, 3, 2}, 0},
      {"an equal value is no better", patient(2), {5, 5, 5}, 3},
      {"a better value begins anew", patient(2), {5, 6, 4, 5, 6}, 5},
      {"by minDelta at most is no better", patient(2, 1.0), {5, 4, 4.5}, 3},
      {"more than minDelta is better", patient(2, 1.0), {5, 3.9, 4.5}, 0},
      {"max", patient(1, 0.0, api::BestMode::max), {1, 2, 1}, 3},
      {"max, by minDelta at most is no better", patient(1, 1.0, api::BestMode::max), {1, 2}, 2},
      {"max, more than minDelta is better", patient(1, 1.0, api::BestMode::max), {1, 2.5, 4}, 0},
      {"NaN is no better", patient(2), {nan, nan}, 2},
      {"an infinite value is no better", patient(1), {1, -infinity}, 2},
      {"max, an infinite value is no better", patient(1, 0.0, api::BestMode::max), {1, infinity}, 2},
  };
  for (const Row& row : rows) {
    StoppingState state;
    std::int64_t ended = 0;
    for (std::size_t i = 0; i < row.values.size() && ended == 0; ++i) {
      state = after_validation(row.spec, state, {{"m", row.values[i]}});
      if (reason_to_stop(row.spec, state)) ended = static_cast<std::int64_t>(i) + 1;
    }
    EXPECT_EQ(ended, row.ends_after) << row.what;
  }
}

TEST(EarlyStopping, SaysWhyItEnds) {
  const api::EarlyStoppingSpec spec{.metric = "val_loss", .patience = 2};
  const StoppingState stopped{.best = BestValue{.metric = "val_loss", .mode = api::BestMode::min, .value = 0.25},
                              .bad_count = 2};
  EXPECT_EQ(reason_to_stop(spec, stopped), "stopped early: val_loss was no better than 0.25 in 2 validations");
  EXPECT_EQ(reason_to_stop(spec, {.best = {}, .bad_count = 2}),
            "stopped early: val_loss was not finite in 2 validations");
  EXPECT_EQ(reason_to_stop(std::nullopt, stopped), std::nullopt) << "the job no longer asks for it";
  auto patient = spec;
  patient.patience = 3;
  EXPECT_EQ(reason_to_stop(patient, stopped), std::nullopt) << "the job has more patience now";
  auto other = spec;
  other.metric = "val_accuracy";
  EXPECT_EQ(reason_to_stop(other, stopped), std::nullopt) << "the state is of another metric";
}

TEST(EarlyStopping, BeginsAnewWithAnotherMetricOrMode) {
  for (const BestValue& best : {BestValue{.metric = "val_loss", .mode = api::BestMode::max, .value = 0.75},
                                BestValue{.metric = "val_accuracy", .mode = api::BestMode::min, .value = 0.75}}) {
    const api::EarlyStoppingSpec spec{.metric = "val_accuracy", .mode = api::BestMode::max};
    const StoppingState before{.best = best, .bad_count = 2};
    EXPECT_EQ(after_validation(spec, before, {{"val_accuracy", 0.5}}),
              (StoppingState{.best = BestValue{.metric = "val_accuracy", .mode = api::BestMode::max, .value = 0.5}}));
    EXPECT_EQ(after_validation(spec, before, {{"val_accuracy", std::numeric_limits<double>::quiet_NaN()}}),
              (StoppingState{.bad_count = 1}));
  }
}

TEST(EarlyStopping, APlateauAndTheBestCheckpointNeedAValidation) {
  api::TrainingSpec training;
  api::CheckpointSpec checkpoint;
  EXPECT_NO_THROW(check_watches_nothing(training, nullptr));
  EXPECT_NO_THROW(check_watches_nothing(training, &checkpoint));
  checkpoint.keep.best = api::KeepBestSpec{.metric = "val_loss"};
  EXPECT_THROW(check_watches_nothing(training, &checkpoint), InvalidJob);
  training.early_stopping = api::EarlyStoppingSpec{.metric = "val_loss"};
  EXPECT_THROW(check_watches_nothing(training, nullptr), InvalidJob);
  training.early_stopping.reset();
  training.lr_schedule = {.name = api::LrScheduleName::plateau, .metric = "val_loss"};
  EXPECT_THROW(check_watches_nothing(training, nullptr), InvalidJob);
}

TEST(EarlyStopping, NamesTheMetricsThatThereAre) {
  try {
    (void)after_validation(api::EarlyStoppingSpec{.metric = "loss"}, {}, {{"val_loss", 1.0}});
    ADD_FAILURE() << "it took a metric that there is not";
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(),
                 "training.earlyStopping.metric: the validation has no metric 'loss' (there is: val_loss)");
  }
}

}  // namespace
}  // namespace trainyard::train
