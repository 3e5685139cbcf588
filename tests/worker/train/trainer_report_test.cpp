// When a training reports its progress, and what it says of a stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <set>

#include "api/contract.hpp"
#include "tests/worker/train/saving_run.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(TrainerReports, AreMadeWithEachLineAndOnceAQuarterOfASecondBetweenLines) {
  TrainingRun run{1};
  run.training.max_steps = 9;
  run.training.log_every.steps = 100;
  run.ranks[0].module->on_step = [&run](std::int64_t) { run.clock.advance(125ms); };
  run.run();
  std::set<std::int64_t> steps;
  for (const auto& report : run.ranks[0].link->reports()) {
    if (report.phase == "Training") steps.insert(report.step.value_or(0));
  }
  EXPECT_EQ(steps, (std::set<std::int64_t>{0, 1, 3, 5, 7, 9})) << "lines of the log are after the steps 1 and 9";
}

TEST(TrainerStop, SavesNothingWithoutACheckpoint) {
  TrainingRun before_first;
  before_first.ranks[1].link->request_stop();
  before_first.run();
  TrainingRun in_last_validation;
  in_last_validation.ranks[1].module->on_validation = [&in_last_validation](std::int64_t) {
    in_last_validation.ranks[1].link->request_stop();
  };
  in_last_validation.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(before_first.ranks[rank].end.exit_code, contract::exit_preempted);
    EXPECT_EQ(before_first.ranks[rank].end.message,
              "stopped as asked after step 0; nothing was saved: checkpoint.uri is not set");
    EXPECT_EQ(in_last_validation.ranks[rank].end.exit_code, contract::exit_preempted);
    EXPECT_EQ(in_last_validation.ranks[rank].end.message,
              "stopped as asked after step 5; nothing was saved: checkpoint.uri is not set");
  }
}

TEST(TrainerStop, NamesNoEarlierCheckpointAsThatOfItsStep) {
  SavingRun saving{1, 100, api::WhenBusy::wait};
  auto& rank = saving.run.ranks[0];
  rank.module->on_step = [&rank, seen = 0](std::int64_t) mutable {
    if (++seen == 5) rank.link->request_stop();
    if (seen == 5) rank.module->loss_factor = std::numeric_limits<double>::infinity();
  };
  saving.run.run();
  EXPECT_EQ(rank.end.exit_code, contract::exit_preempted);
  EXPECT_THAT(saving.saved(0), testing::Contains(4));
  EXPECT_THAT(rank.end.message, HasSubstr("it was not saved because it is not finite"));
}

}  // namespace
}  // namespace trainyard::train
