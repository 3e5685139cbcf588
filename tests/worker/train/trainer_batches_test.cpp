// Steps of several batches, and what a batch may be.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"
#include "worker/data/sampling.hpp"

namespace trainyard::train {
namespace {

TEST(TrainerBatches, TrainsAsWithOneBatchOfTheirSize) {
  // 100 samples are two whole steps of 40 and one of 20.
  TrainingRun several{2};
  several.training.batch_size = 10;
  several.training.accumulate_grad_batches = 2;
  TrainingRun one{2};
  one.training.batch_size = 20;
  for (TrainingRun* run : {&several, &one}) {
    run->training.epochs = 2;
    run->training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.01};
    for (auto& rank : run->ranks) rank.module->set_uses_batch_norm(false);
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    EXPECT_EQ(run->ranks[0].link->reports().back().step, 6);
    EXPECT_EQ(run->ranks[0].checksum, run->ranks[1].checksum);
  }
  const auto ours = named_parameters(*several.ranks[0].module);
  const auto expected = named_parameters(*one.ranks[0].module);
  for (std::size_t index = 0; index < ours.size(); ++index) {
    EXPECT_TRUE(torch::allclose(ours[index].second, expected[index].second, 0, 1e-6)) << ours[index].first;
  }
}

TEST(TrainerBatches, ResumesToTheBitAndUsesEachSampleOnceAnEpoch) {
  const fakes::TemporaryFolder folder;
  const std::string record = folder.path() + "/samples";
  const auto run = [&](std::optional<std::int64_t> stop_at, std::int64_t attempt, bool saves) {
    TrainingRun run{2};
    run.training.epochs = 3;
    run.training.accumulate_grad_batches = 3;  // An epoch is a step of 60 samples and one of 40.
    run.attempt = attempt;
    if (saves) {
      run.checkpoint.emplace().uri = folder.uri() + "/checkpoints";
      run.sample_record = record;
    }
    std::vector<std::int64_t> batches;
    run.ranks[0].module->on_step = [&](std::int64_t batch_index) {
      batches.push_back(batch_index);
      if (stop_at && static_cast<std::int64_t>(batches.size()) == *stop_at) run.ranks[0].link->request_stop();
    };
    run.run();
    return std::tuple{run.ranks[0].end.exit_code, run.ranks[0].checksum, batches};
  };
  const auto whole = run({}, 1, /*saves=*/false);
  EXPECT_EQ(std::get<2>(whole), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  const auto first = run(5, 1, /*saves=*/true);
  EXPECT_EQ(std::get<0>(first), contract::exit_preempted);
  const auto second = run({}, 2, /*saves=*/true);
  EXPECT_EQ(std::get<0>(second), contract::exit_success);
  EXPECT_EQ(std::get<1>(second), std::get<1>(whole));

  std::multiset<std::int64_t> ids;
  std::ifstream lines{record};
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    for (const auto& id : entry.at("ids")) ids.insert(id.get<std::int64_t>());
  }
  EXPECT_EQ(ids.size(), 300U);
  for (std::int64_t id = 0; id < 100; ++id) EXPECT_EQ(ids.count(id), 3U) << id;
}

TEST(TrainerBatches, TrainsInAnEpochsLastStepOnTheMeanOfItsSamplesAndRepeatsTheFirstOnesOnly) {
  // 103 samples of 2 ranks: five steps of 20, and one of 3, which the epoch's first sample makes 4.
  constexpr std::int64_t samples = 103, ranks = 2, epochs = 2;
  const fakes::TemporaryFolder folder;
  TrainingRun run{ranks};
  run.training_samples = samples;
  run.training.epochs = epochs;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.01};
  run.sample_record = folder.path() + "/samples";
  for (auto& rank : run.ranks) rank.module->set_uses_batch_norm(false);
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;

  std::multiset<std::int64_t> expected_ids;
  const auto expected = make_small_module(5);
  expected->set_uses_batch_norm(false);
  const auto data = make_small_dataset(samples, 0);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const torch::Tensor order = data::epoch_order(samples, run.training.seed, epoch);
    const torch::Tensor seen = torch::cat({order, order.slice(0, 0, 1)});
    for (const torch::Tensor& ids : seen.split(run.training.batch_size * ranks)) {
      expected->zero_grad();
      expected->training_step_end(expected->training_step(data.gather(ids), 0)).backward();
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : expected->parameters())
        if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.01);
    }
    expected_ids.insert(seen.const_data_ptr<std::int64_t>(), seen.const_data_ptr<std::int64_t>() + seen.numel());
  }
  const auto ours = named_parameters(*run.ranks[0].module);
  const auto theirs = named_parameters(*expected);
  for (std::size_t index = 0; index < ours.size(); ++index)
    EXPECT_TRUE(torch::allclose(ours[index].second, theirs[index].second, 0, 1e-6)) << ours[index].first;

  std::multiset<std::int64_t> ids;
  std::ifstream lines{*run.sample_record};
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    for (const auto& id : entry.at("ids")) ids.insert(id.get<std::int64_t>());
  }
  EXPECT_EQ(ids, expected_ids);
}

/// A data set that asks for `threads`.
class ThreadedData final : public Dataset {
 public:
  explicit ThreadedData(std::int64_t threads) : threads_{threads} {}
  [[nodiscard]] std::int64_t size() const override { return data_.size(); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override { return data_.gather(ids); }
  [[nodiscard]] std::int64_t loader_threads() const override { return threads_; }

 private:
  data::ImageDataset data_ = make_small_dataset(100, 0);
  std::int64_t threads_;
};

TEST(LoaderThreads, AreThoseOfTheJobButAtMostOneWhereTheDataSetAsksForNone) {
  struct Case {
    std::optional<std::int64_t> asked_by_job;
    std::int64_t asked_by_data, threads;
  };
  for (const Case& c :
       std::vector<Case>{{{}, 0, 0}, {{}, 2, 2}, {0, 2, 0}, {8, 2, 8}, {1, 2, 1}, {0, 0, 0}, {1, 0, 1}, {8, 0, 1}}) {
    EXPECT_EQ(loader_threads({.loader_threads = c.asked_by_job}, ThreadedData{c.asked_by_data}), c.threads)
        << c.asked_by_job.value_or(-1) << ", " << c.asked_by_data;
  }
}

TEST(TrainerBatches, TrainsToTheSameBitsWithLoaderThreads) {
  std::vector<std::uint64_t> checksums;
  const ThreadedData data{2};
  for (const std::int64_t threads : {0, 3}) {
    TrainingRun run{2};
    run.training_data = &data;
    run.training.epochs = 2;
    run.training.data.loader_threads = threads;
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    checksums.push_back(run.ranks[0].checksum);
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST(TrainerBatches, SavesNothingAtAStopWhereTheLossOfAStepsFirstBatchIsNotFinite) {
  const fakes::TemporaryFolder folder;
  TrainingRun run{1};
  run.training.accumulate_grad_batches = 2;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.0};
  run.checkpoint.emplace().uri = folder.uri() + "/checkpoints";
  TrainingRun::Rank& rank = run.ranks[0];
  rank.module->on_step = [&rank](std::int64_t batch_index) {
    rank.module->loss_factor = batch_index == 0 ? std::numeric_limits<double>::infinity() : 1.0;
    if (batch_index == 0) rank.link->request_stop();
  };
  run.run();
  EXPECT_EQ(rank.end.exit_code, contract::exit_preempted);
  EXPECT_EQ(rank.end.message.find("saved as"), std::string::npos) << rank.end.message;
}

}  // namespace
}  // namespace trainyard::train
