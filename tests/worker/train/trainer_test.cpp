#include "worker/train/trainer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/optim.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

api::CheckpointSpec checkpoints_in(const fakes::TemporaryFolder& folder) {
  api::CheckpointSpec spec;
  spec.uri = folder.uri() + "/checkpoints";
  return spec;
}

/// Stops the run as SIGTERM to rank `rank` in the middle of step `step` (from 1) would.
void stop_at_step(TrainingRun& run, std::size_t rank, std::int64_t step) {
  TrainingRun::Rank& stopped = run.ranks[rank];
  stopped.module->on_step = [&stopped, step, seen = std::int64_t{0}](std::int64_t) mutable {
    if (++seen == step) stopped.link->request_stop();
  };
}

TEST(Trainer, TrainsToTheEndAndSaysHowItWent) {
  TrainingRun run;
  run.training.epochs = 2;
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_success) << rank.end.message;
    EXPECT_EQ(rank.end.reason, "Completed");
    EXPECT_THAT(rank.end.message, HasSubstr("trained 10 steps, val_accuracy"));
    const rank::RankProgress last = rank.link->reports().back();
    EXPECT_EQ(last.phase, "Done");
    EXPECT_EQ(last.step, 10);
    EXPECT_EQ(last.total_steps, 10);
    EXPECT_EQ(last.epoch, 2);
    EXPECT_EQ(last.epochs, 2);
    EXPECT_TRUE(last.loss.has_value());
    EXPECT_TRUE(last.accuracy.has_value());
  }
}

TEST(Trainer, LearnsAndLeavesEqualBitsOnAllRanks) {
  TrainingRun run{4};
  run.training.epochs = 20;
  run.training.optimizer.lr = 0.01;
  run.run();
  const auto reports = run.ranks[0].link->reports();
  std::vector<double> losses;
  for (const auto& report : reports) {
    if (report.loss) losses.push_back(*report.loss);
  }
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_GT(*reports.back().accuracy, 0.5);
  for (const auto& rank : run.ranks) EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
}

TEST(Trainer, TrainsTwoRanksAsOneRankOfTwiceTheBatch) {
  // Equal but for rounding: without BatchNorm, whose statistics are of each rank's own batch, the mean gradient is that
  // of the whole batch.
  TrainingRun two{2}, one{1};
  one.training.batch_size = 20;
  for (TrainingRun* run : {&two, &one}) {
    run->training.epochs = 3;
    run->training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.01};
    for (auto& rank : run->ranks) rank.module->set_uses_batch_norm(false);
    run->run();
  }
  const auto ours = named_parameters(*two.ranks[0].module);
  const auto expected = named_parameters(*one.ranks[0].module);
  for (std::size_t index = 0; index < ours.size(); ++index) {
    EXPECT_TRUE(torch::allclose(ours[index].second, expected[index].second, 1e-4, 1e-5)) << ours[index].first;
  }
}

TEST(Trainer, ResumesToTheBitAfterAStopInTheMiddleOfAnEpoch) {
  for (const auto& [world_size, dropout] : {std::pair{1, 0.5}, std::pair{2, 0.0}}) {
    TrainingRun whole{world_size, dropout};
    whole.training.max_steps = 20;
    whole.run();

    const fakes::TemporaryFolder folder;
    TrainingRun first{world_size, dropout};
    first.training.max_steps = 20;
    first.checkpoint = checkpoints_in(folder);
    stop_at_step(first, 0, 11);
    first.run();
    EXPECT_EQ(first.ranks[0].end.exit_code, contract::exit_preempted);

    TrainingRun second{world_size, dropout};
    second.training.max_steps = 20;
    second.checkpoint = first.checkpoint;
    second.attempt = 2;
    second.run();
    for (std::size_t rank = 0; rank < second.ranks.size(); ++rank) {
      EXPECT_EQ(second.ranks[rank].end.reason, "Completed") << second.ranks[rank].end.message;
      EXPECT_EQ(second.ranks[rank].checksum, whole.ranks[rank].checksum) << world_size << " ranks, rank " << rank;
    }
  }
}

TEST(Trainer, ResumesAnOptimizerOfLibTorchToTheBit) {
  const fakes::TemporaryFolder folder;
  const auto run_until = [&](std::int64_t step, std::int64_t attempt, bool is_saved) {
    TrainingRun run{1};
    run.training.max_steps = step;
    run.attempt = attempt;
    if (is_saved) run.checkpoint = checkpoints_in(folder);
    run.ranks[0].module->own_optimizer = [](SmallModule& module) {
      return wrap_optimizer(std::make_unique<torch::optim::Adam>(module.parameters(), torch::optim::AdamOptions(0.01)),
                            module);
    };
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    return run.ranks[0].checksum;
  };
  const auto whole = run_until(8, 1, /*is_saved=*/false);
  EXPECT_NE(run_until(5, 1, /*is_saved=*/true), whole);
  // Adam's correction of its bias depends on the number of steps, which LibTorch keeps beside its tensors.
  EXPECT_EQ(run_until(8, 2, /*is_saved=*/true), whole);
}

TEST(Trainer, SavesTheSameStepOnAllRanksWhenOneIsAskedToStop) {
  const fakes::TemporaryFolder folder;
  TrainingRun run{3};
  run.training.epochs = 100;
  run.checkpoint = checkpoints_in(folder);
  stop_at_step(run, 2, 2);
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_preempted) << rank.end.message;
    EXPECT_EQ(rank.end.reason, "Preempted");
    EXPECT_THAT(rank.end.message, HasSubstr("stopped as asked after step 3, saved as file://"));
    EXPECT_EQ(rank.link->reports().back().checkpoint->step, 3);
  }
}

TEST(Trainer, LeavesAValidationWhenAskedToStopAndResumesToTheBit) {
  TrainingRun whole;
  whole.training.epochs = 2;
  whole.run();

  // Five steps an epoch, and a validation of two rounds after each. The second is the training's last work.
  for (const int validation : {1, 2}) {
    const fakes::TemporaryFolder folder;
    TrainingRun first;
    first.training.epochs = 2;
    first.checkpoint = checkpoints_in(folder);
    TrainingRun::Rank& stopped = first.ranks[1];
    stopped.module->on_validation = [&stopped, validation, begun = 0](std::int64_t round) mutable {
      if (round == 0 && ++begun == validation) stopped.link->request_stop();
    };
    first.run();
    for (const auto& rank : first.ranks) {
      EXPECT_EQ(rank.end.exit_code, contract::exit_preempted) << rank.end.message;
      EXPECT_THAT(rank.end.message, HasSubstr(fmt::format("after step {}, saved as file://", 5 * validation)));
    }

    TrainingRun second;
    second.training.epochs = 2;
    second.checkpoint = first.checkpoint;
    second.attempt = 2;
    second.run();
    for (std::size_t rank = 0; rank < second.ranks.size(); ++rank) {
      EXPECT_EQ(second.ranks[rank].end.reason, "Completed") << second.ranks[rank].end.message;
      EXPECT_EQ(second.ranks[rank].checksum, whole.ranks[rank].checksum) << "validation " << validation;
      EXPECT_EQ(second.ranks[rank].link->reports().back().accuracy, whole.ranks[rank].link->reports().back().accuracy);
    }
  }
}

TEST(Trainer, RecordsTheEndOfARunThatIsNotToBeRepeated) {
  struct Row {
    std::string_view name;
    std::int64_t max_steps;
    std::function<void(TrainingRun&)> arrange;
    bool is_recorded;
  };
  const Row rows[] = {
      {"completed", 3, [](TrainingRun&) {}, true},
      {"preempted", 100, [](TrainingRun& run) { stop_at_step(run, 1, 2); }, true},
      {"failed", 100,
       [](TrainingRun& run) {
         run.ranks[1].module->on_step = [](std::int64_t) { throw std::runtime_error{"this rank's code fails"}; };
       },
       false},
      {"refused by the job's own code", 100,
       [](TrainingRun& run) {
         for (auto& rank : run.ranks)
           rank.module->on_step = [](std::int64_t) { throw InvalidJob{"these images are of another size"}; };
       },
       true},
      {"refused in a group that is broken", 100,
       [](TrainingRun& run) {
         for (auto& rank : run.ranks) {
           rank.module->on_step = [&rank](std::int64_t) {
             rank.link->break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = 3});
             throw InvalidJob{"a batch of no images"};
           };
         }
       },
       false},
  };
  for (const Row& row : rows) {
    const fakes::TemporaryFolder folder;
    TrainingRun run;
    run.training.max_steps = row.max_steps;
    run.checkpoint = checkpoints_in(folder);
    row.arrange(run);
    run.run();
    EXPECT_EQ(std::filesystem::exists(folder.path() + "/checkpoints/generations/1.end"), row.is_recorded) << row.name;
  }
}

TEST(Trainer, SaysThatNothingWasSavedWhereNoCheckpointIsSet) {
  TrainingRun run{1};
  run.training.epochs = 100;
  stop_at_step(run, 0, 1);
  run.run();
  EXPECT_EQ(run.ranks[0].end.exit_code, contract::exit_preempted);
  EXPECT_THAT(run.ranks[0].end.message, HasSubstr("nothing was saved"));
}

TEST(Trainer, SaysAlreadyCompleteAndTrainsOnWhenMoreIsAskedFor) {
  const fakes::TemporaryFolder folder;
  const auto run_epochs = [&](std::int64_t epochs) {
    TrainingRun run;
    run.training.epochs = epochs;
    run.checkpoint = checkpoints_in(folder);
    run.run();
    return run.ranks[1].end;
  };
  EXPECT_EQ(run_epochs(1).reason, "Completed");
  const rank::RankEnd again = run_epochs(1);
  EXPECT_EQ(again.reason, "AlreadyComplete");
  EXPECT_EQ(again.exit_code, contract::exit_success);
  EXPECT_THAT(again.message, HasSubstr("checkpoint.resume to none"));
  EXPECT_THAT(run_epochs(2).message, HasSubstr("trained 10 steps"));
}

TEST(Trainer, SavesByTimeWhenRankZerosClockSaysSo) {
  const fakes::TemporaryFolder folder;
  TrainingRun run;
  run.training.max_steps = 9;
  run.checkpoint = checkpoints_in(folder);
  run.checkpoint->every.time = 50s;
  run.checkpoint->when_busy = api::WhenBusy::wait;
  run.ranks[0].module->on_step = [&run](std::int64_t) { run.clock.advance(20s); };
  run.run();
  std::set<std::int64_t> saved;
  for (const auto& report : run.ranks[1].link->reports()) {
    if (report.checkpoint) saved.insert(report.checkpoint->step);
  }
  // Step 4 begins 60 s after the start, step 8 begins 60 s after step 4 was saved; step 9 is the last.
  EXPECT_EQ(saved, (std::set<std::int64_t>{4, 8, 9}));
}

TEST(Trainer, ReportsALossThatIsNotFiniteAndTrainsOn) {
  TrainingRun run;
  run.training.max_steps = 4;
  run.ranks[1].module->loss_factor = std::numeric_limits<double>::quiet_NaN();
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed");
    EXPECT_TRUE(std::isnan(*rank.link->reports().back().loss));
  }
}

TEST(Trainer, KeepsTheLastGoodCheckpointsWhileTheLossIsNotFinite) {
  const fakes::TemporaryFolder folder;
  TrainingRun run;
  run.training.max_steps = 9;
  run.checkpoint = checkpoints_in(folder);
  run.checkpoint->every.steps = 2;
  run.checkpoint->when_busy = api::WhenBusy::wait;
  SmallModule& module = *run.ranks[1].module;
  module.on_step = [&module, step = 0](std::int64_t) mutable {
    if (++step == 5) module.loss_factor = std::numeric_limits<double>::quiet_NaN();
  };
  run.run();
  std::set<std::int64_t> saved;
  for (const auto& report : run.ranks[0].link->reports()) {
    if (report.checkpoint) saved.insert(report.checkpoint->step);
  }
  EXPECT_EQ(saved, (std::set<std::int64_t>{2, 4, 9})) << "the end is saved, so that the job is complete";
}

TEST(Trainer, SavesNoParametersThatAreNotFiniteThoughTheLossStillIs) {
  const fakes::TemporaryFolder folder;
  TrainingRun run{1};
  run.training.max_steps = 4;
  run.checkpoint = checkpoints_in(folder);
  run.checkpoint->every.steps = 1;
  run.checkpoint->when_busy = api::WhenBusy::wait;
  SmallModule& module = *run.ranks[0].module;
  module.on_step = [&module, step = 0](std::int64_t) mutable {
    // The loss does not depend on this parameter: only the update makes it not finite.
    if (++step == 3) module.spare.mutable_grad() = torch::full({1}, std::numeric_limits<float>::infinity());
  };
  run.run();
  std::set<std::int64_t> saved;
  for (const auto& report : run.ranks[0].link->reports()) {
    if (report.checkpoint) saved.insert(report.checkpoint->step);
  }
  EXPECT_EQ(saved, (std::set<std::int64_t>{1, 2, 4}));
}

TEST(Trainer, MakesNoStepWhenItWasAskedToStopBeforeTheFirst) {
  const fakes::TemporaryFolder folder;
  TrainingRun run;
  run.training.epochs = 100;
  run.checkpoint = checkpoints_in(folder);
  run.ranks[1].link->request_stop();
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_preempted);
    EXPECT_EQ(rank.end.message, "stopped as asked after step 0, before this attempt's first");
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/checkpoints/generations")) << "nothing is claimed";
}

TEST(Trainer, SaysThatAnUnsoundStateWasNotSavedWhenAskedToStop) {
  const fakes::TemporaryFolder folder;
  TrainingRun run{1};
  run.training.epochs = 100;
  run.checkpoint = checkpoints_in(folder);
  run.ranks[0].module->loss_factor = std::numeric_limits<double>::infinity();
  stop_at_step(run, 0, 3);
  run.run();
  EXPECT_EQ(run.ranks[0].end.exit_code, contract::exit_preempted);
  EXPECT_THAT(run.ranks[0].end.message, HasSubstr("not saved because it is not finite"));
}

TEST(Trainer, EndsAsPeerLostWhenAnotherRankHasGone) {
  TrainingRun run;
  run.training.epochs = 100;
  run.ranks[1].module->on_step = [seen = 0](std::int64_t) mutable {
    if (++seen == 3) throw std::runtime_error{"this rank's code fails"};
  };
  run.run();
  EXPECT_EQ(run.ranks[1].end.message, "this rank's code fails");
  EXPECT_EQ(run.ranks[0].end.exit_code, contract::exit_peer_lost) << run.ranks[0].end.message;
  EXPECT_EQ(run.ranks[0].end.reason, "PeerLost");
}

TEST(Trainer, NamesTheCulpritThatTheLauncherKnows) {
  TrainingRun run;
  run.training.epochs = 100;
  const rank::RankEnd failure{
      .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};
  run.ranks[1].module->on_step = [&, seen = 0](std::int64_t) mutable {
    if (++seen != 3) return;
    run.ranks[0].link->break_group(failure);
    throw std::runtime_error{"gone"};
  };
  run.run();
  EXPECT_EQ(run.ranks[0].end, failure);
}

TEST(Trainer, UsesEverySampleOncePerEpochAlsoOverARestart) {
  const fakes::TemporaryFolder folder;
  const std::string record = folder.path() + "/samples.jsonl";
  for (const std::int64_t attempt : {1, 2}) {
    TrainingRun run;
    run.training.epochs = 3;
    run.attempt = attempt;
    run.checkpoint = checkpoints_in(folder);
    run.sample_record = record;
    if (attempt == 1) stop_at_step(run, 1, 6);
    run.run();
  }
  std::map<std::int64_t, std::multiset<std::int64_t>> ids_by_epoch;
  std::ifstream lines{record};
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    EXPECT_EQ(entry.at("attempt"), entry.at("step").get<int>() <= 7 ? 1 : 2);
    for (const auto& id : entry.at("ids"))
      ids_by_epoch[(entry.at("step").get<std::int64_t>() - 1) / 5].insert(id.get<std::int64_t>());
  }
  EXPECT_EQ(ids_by_epoch.size(), 3U);
  for (const auto& [epoch, ids] : ids_by_epoch) {
    EXPECT_EQ(ids.size(), 100U) << "epoch " << epoch;
    EXPECT_EQ((std::set<std::int64_t>{ids.begin(), ids.end()}).size(), 100U) << "epoch " << epoch;
  }
}

/// Small samples that record the epochs for which a batch is made.
class EpochWatch final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return data_.size(); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override { return data_.gather(ids); }
  [[nodiscard]] Batch gather_in_epoch(const torch::Tensor& ids, std::int64_t epoch) const override {
    epochs_.push_back(epoch);
    return data_.gather(ids);
  }
  [[nodiscard]] const std::vector<std::int64_t>& epochs() const { return epochs_; }

 private:
  data::ImageDataset data_ = make_small_dataset(20, 0);
  mutable std::vector<std::int64_t> epochs_;
};

TEST(Trainer, GathersEachBatchForItsEpochAlsoAfterARestart) {
  const fakes::TemporaryFolder folder;
  std::vector<std::vector<std::int64_t>> epochs;
  for (const std::int64_t attempt : {1, 2}) {
    const EpochWatch data;
    TrainingRun run{1};
    run.training_data = &data;
    run.training.epochs = 3;
    run.attempt = attempt;
    run.checkpoint = checkpoints_in(folder);
    if (attempt == 1) stop_at_step(run, 0, 2);
    run.run();
    epochs.push_back(data.epochs());
  }
  std::vector<std::int64_t> all = epochs[0];
  all.insert(all.end(), epochs[1].begin(), epochs[1].end());
  EXPECT_EQ(all, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_FALSE(epochs[1].empty());
}

TEST(Trainer, LeavesABatchNormAsItIsThatTheModelKeepsInEvaluationMode) {
  TrainingRun run{1};
  run.training.max_steps = 4;
  run.training.validate_every = api::Every{.steps = 2};
  torch::nn::Module& norm = *run.ranks[0].module->named_children()["norm"];
  norm.eval();
  const torch::Tensor mean = norm.named_buffers()["running_mean"].clone();
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
  EXPECT_FALSE(norm.is_training());
  EXPECT_TRUE(torch::equal(norm.named_buffers()["running_mean"], mean));
}

TEST(Trainer, CallsAfterTheFirstStepOnceOnEachRank) {
  TrainingRun run{2};
  std::atomic<int> calls = 0;
  run.after_first_step = [&](const TrainingRun::Rank& rank) {
    ++calls;
    EXPECT_EQ(rank.link->reports().back().step.value_or(0), 0) << "no step is reported before the first";
  };
  run.run();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace trainyard::train
