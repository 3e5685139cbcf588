// Checkpoints after validations with the best metric so far.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

/// A run that validates after every second step, and logs one value of `val_scores` in each validation.
class ScoredRun {
 public:
  ScoredRun(const fakes::TemporaryFolder& folder, std::int64_t world_size, std::vector<double> val_scores)
      : run{world_size}, val_scores_{std::move(val_scores)} {
    run.training.max_steps = 2 * static_cast<std::int64_t>(val_scores_.size()) + 1;
    run.training.validate_every = api::Every{.steps = 2, .epochs = {}, .time = {}};
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + "/checkpoints";
    run.checkpoint->every.best = true;
    run.checkpoint->when_busy = api::WhenBusy::wait;
    run.checkpoint->keep.last = 100;
    run.checkpoint->keep.best = api::KeepBestSpec{.metric = "score"};
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      SmallModule& module = *run.ranks[rank].module;
      module.on_validation = [this, &module, rank, validations = std::size_t{0}](std::int64_t round) mutable {
        if (round == 0) ++validations;
        // The ranks log different values, whose mean is the score.
        const double own = rank % 2 == 0 ? 1000.0 : -1000.0;
        const double score = validations > val_scores_.size() ? -1.0 : val_scores_[validations - 1];
        const double logged = score + (run.ranks.size() > 1 ? own : 0.0);
        module.metric_sink()->log("score", torch::scalar_tensor(logged, torch::kDouble), {});
      };
    }
  }
  [[nodiscard]] std::set<std::int64_t> saved(std::size_t rank) const {
    std::set<std::int64_t> steps;
    for (const auto& report : run.ranks[rank].link->reports()) {
      if (report.checkpoint) steps.insert(report.checkpoint->step);
    }
    return steps;
  }

  TrainingRun run;

 private:
  std::vector<double> val_scores_;
};

using SavedSteps = std::set<std::int64_t>;

TEST(TrainerAtABest, SavesWhatIsBetterThanAllBeforeOnAllRanksAlike) {
  for (const std::int64_t world_size : {1, 4}) {
    const fakes::TemporaryFolder folder;
    // 32 samples: each rank's own values have equal weight in the mean.
    ScoredRun scored{folder, world_size, {3, 2, 4, 4, 1, 5}};
    scored.run.validation_samples = 32;
    scored.run.run();
    for (std::size_t rank = 0; rank < scored.run.ranks.size(); ++rank) {
      EXPECT_EQ(scored.run.ranks[rank].end.reason, "Completed") << scored.run.ranks[rank].end.message;
      // Steps 2, 6 and 12; 13 is the last.
      EXPECT_EQ(scored.saved(rank), (SavedSteps{2, 6, 12, 13})) << world_size << " ranks, rank " << rank;
    }
  }
}

TEST(TrainerAtABest, EndsWhereTheValidationHasNoSuchMetric) {
  for (const bool saves_at_best : {true, false}) {
    const fakes::TemporaryFolder folder;
    ScoredRun scored{folder, 1, {3, 2}};
    scored.run.checkpoint->keep.best->metric = "scoer";
    scored.run.checkpoint->every.best = saves_at_best;
    scored.run.run();
    EXPECT_EQ(scored.run.ranks[0].end.reason, "Threw");
    EXPECT_THAT(scored.run.ranks[0].end.message,
                testing::HasSubstr("checkpoint.keep.best.metric: the validation has no metric 'scoer' (there is: "));
  }
}

TEST(TrainerAtABest, GoesOnWhereALaterValidationDoesNotLogTheMetric) {
  const fakes::TemporaryFolder folder;
  ScoredRun scored{folder, 1, {3, 2}};
  SmallModule& module = *scored.run.ranks[0].module;
  module.on_validation = [&module, is_first = true](std::int64_t round) mutable {
    if (round == 0 && std::exchange(is_first, false))
      module.metric_sink()->log("score", torch::scalar_tensor(3.0, torch::kDouble), {});
  };
  scored.run.checkpoint->every.best = false;
  scored.run.run();
  EXPECT_EQ(scored.run.ranks[0].end.reason, "Completed") << scored.run.ranks[0].end.message;
}

TEST(TrainerAtABest, SavesOnceWhereTheScheduleAsksForTheStepAsWell) {
  const fakes::TemporaryFolder folder;
  ScoredRun scored{folder, 1, {3, 2, 4, 4, 1, 5}};
  scored.run.checkpoint->every.steps = 6;
  scored.run.run();
  EXPECT_EQ(scored.run.ranks[0].end.reason, "Completed") << scored.run.ranks[0].end.message;
  EXPECT_EQ(scored.saved(0), (SavedSteps{2, 6, 12, 13}));
}

TEST(TrainerAtABest, KnowsTheBestOfTheAttemptsBefore) {
  const fakes::TemporaryFolder folder;
  ScoredRun first{folder, 2, {3, 5, 1, 1, 1, 1}};
  first.run.validation_samples = 32;
  TrainingRun::Rank& stopped = first.run.ranks[1];
  stopped.module->on_step = [&stopped, step = 0](std::int64_t) mutable {
    if (++step == 7) stopped.link->request_stop();
  };
  first.run.run();
  EXPECT_EQ(first.run.ranks[0].end.exit_code, contract::exit_preempted);
  EXPECT_EQ(first.saved(0), (SavedSteps{2, 4, 8}));

  // The run resumes after step 8: its first validation is after step 10.
  ScoredRun second{folder, 2, {4, 6}};
  second.run.validation_samples = 32;
  second.run.training.max_steps = 13;
  second.run.attempt = 2;
  second.run.run();
  EXPECT_EQ(second.run.ranks[0].end.reason, "Completed") << second.run.ranks[0].end.message;
  EXPECT_EQ(second.saved(0), (SavedSteps{12, 13})) << "4 was better than all of this attempt's, and not than 5";
}

TEST(TrainerAtABest, SavesWhatWasValidatedWhereTheValidationIsMadeUpForAfterARestart) {
  const fakes::TemporaryFolder folder;
  const api::EarlyStoppingSpec stopping{.metric = "score", .mode = api::BestMode::max, .patience = 100};
  ScoredRun first{folder, 2, {3, 9}};
  first.run.validation_samples = 32;
  first.run.training.early_stopping = stopping;
  // The stop interrupts the second validation, after step 4.
  TrainingRun::Rank& stopped = first.run.ranks[1];
  stopped.module->on_validation = [&stopped, score = stopped.module->on_validation,
                                   begun = 0](std::int64_t round) mutable {
    if (round == 0 && ++begun == 2) stopped.link->request_stop();
    score(round);
  };
  first.run.run();
  EXPECT_EQ(first.run.ranks[0].end.exit_code, contract::exit_preempted) << first.run.ranks[0].end.message;
  EXPECT_EQ(first.saved(0), (SavedSteps{2, 4}));

  ScoredRun second{folder, 2, {9, 1}};
  second.run.validation_samples = 32;
  second.run.training.early_stopping = stopping;
  second.run.training.max_steps = 7;
  second.run.attempt = 2;
  second.run.run();
  for (std::size_t rank = 0; rank < second.run.ranks.size(); ++rank) {
    EXPECT_EQ(second.run.ranks[rank].end.reason, "Completed") << second.run.ranks[rank].end.message;
    EXPECT_EQ(second.saved(rank), (SavedSteps{4, 7})) << "step 5 was never validated";
  }
}

TEST(TrainerAtABest, SavesAtTheOtherTimesToo) {
  const fakes::TemporaryFolder folder;
  ScoredRun scored{folder, 1, {1, 2, 1}};
  scored.run.checkpoint->every.steps = 3;
  scored.run.run();
  EXPECT_EQ(scored.saved(0), (SavedSteps{2, 3, 4, 6, 7}));
}

}  // namespace
}  // namespace trainyard::train
