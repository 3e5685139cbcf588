// Trainings whose ranks divide their batches among replicas (dp and ddp2), against those of ranks with one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "tests/worker/train/toy_gan.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/precision.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

/// Gives each rank of `run` `count` replicas on the CPU, which `make` makes.
void add_replicas(TrainingRun& run, std::int64_t count, std::function<std::shared_ptr<Module>()> make,
                  bool has_threads = false) {
  run.make_replicas = [&run, count, make = std::move(make), has_threads](Module& module) {
    std::vector<FurtherReplica> others;
    for (std::int64_t index = 1; index < count; ++index) {
      others.push_back({.module = make()});
      convert(*others.back().module, number_format(run.training));
    }
    return std::make_unique<ModuleReplicas>(module, torch::kCPU, std::move(others),
                                            ReplicaOptions{.has_threads = has_threads});
  };
}

std::shared_ptr<Module> a_replica() {
  auto made = std::make_shared<SmallModule>();
  made->set_uses_batch_norm(false);
  return made;
}

torch::Tensor end_of(TrainingRun& run) {
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
    EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
  }
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& parameter : run.ranks[0].parameters) parts.push_back(parameter.flatten());
  return torch::cat(parts).to(torch::kDouble);
}

struct ReplicaCase {
  std::string what;
  std::function<void(TrainingRun&)> set;
  double difference_max = 1e-5;
};

const ReplicaCase replica_cases[] = {
    {"Plain", [](TrainingRun&) {}},
    {"ClippedByTheNorm", [](TrainingRun& run) { run.training.gradient_clip = {.norm = 0.1, .value = {}}; }},
    {"TwoBatchesAStep", [](TrainingRun& run) { run.training.accumulate_grad_batches = 2; }},
    {"AnAverage", [](TrainingRun& run) { run.training.ema = api::EmaSpec{.decay = 0.5}; }},
    {"InFp64", [](TrainingRun& run) { run.training.precision = api::Precision::fp64; }, 1e-12},
    {"InFp16Mixed", [](TrainingRun& run) { run.training.precision = api::Precision::fp16_mixed; }, 1e-3},
};

class TrainerReplicas : public testing::TestWithParam<ReplicaCase> {};

/// One rank with batches of `batch_size`, or two ranks with half of that. `count`: replicas of a rank.
torch::Tensor train(const ReplicaCase& of, std::int64_t world_size, std::int64_t count) {
  constexpr std::int64_t whole_batch = 20;
  TrainingRun run{world_size};
  run.training.batch_size = whole_batch / world_size;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
  run.training.max_steps = 4;
  for (auto& rank : run.ranks) rank.module->set_uses_batch_norm(false);
  of.set(run);
  if (count > 1) add_replicas(run, count, a_replica);
  return end_of(run);
}

TEST_P(TrainerReplicas, EndWithTheParametersOfOneDevice) {
  const torch::Tensor alone = train(GetParam(), 1, 1);
  for (const auto& [world_size, count] : {std::pair{1, 2}, {1, 3}, {2, 2}}) {
    EXPECT_LT((train(GetParam(), world_size, count) - alone).abs().max().item<double>(), GetParam().difference_max)
        << world_size << " ranks of " << count << " replicas";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerReplicas, testing::ValuesIn(replica_cases),
                         [](const auto& info) { return info.param.what; });

TEST(TrainerOfReplicas, TrainsSeveralOptimizersAsOneDeviceDoes) {
  std::vector<torch::Tensor> ends;
  for (const std::int64_t count : {1, 2, 3}) {
    TrainingRun run{1};
    run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
    run.training.max_steps = 4;
    run.ranks[0].other_module = make_toy_gan(3);
    if (count > 1)
      add_replicas(
          run, count, [] { return std::make_shared<ToyGan>(); }, /*has_threads=*/true);
    ends.push_back(end_of(run));
    EXPECT_LT((ends.back() - ends.front()).abs().max().item<double>(), 1e-5) << count;
  }
}

TEST(TrainerOfReplicas, ResumesToTheBitWithDropoutAndBatchNorm) {
  const fakes::TemporaryFolder folder;
  const auto train_to = [&](std::int64_t max_steps, std::int64_t attempt, const std::string& place) {
    TrainingRun run{1, /*dropout=*/0.5};
    run.training.max_steps = max_steps;
    run.training.epochs = 100;
    add_replicas(run, 2, [] { return std::make_shared<SmallModule>(0.5); });
    run.attempt = attempt;
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + place;
    return end_of(run);
  };
  const torch::Tensor whole = train_to(6, 1, "/whole");
  EXPECT_FALSE(torch::equal(train_to(3, 1, "/parts"), whole));
  EXPECT_TRUE(torch::equal(train_to(6, 2, "/parts"), whole));
}

TEST(TrainerOfReplicas, ValidatesEachSampleOnce) {
  std::vector<double> accuracies;
  for (const std::int64_t count : {1, 3}) {
    TrainingRun run{1};
    run.training.max_steps = 3;
    for (auto& rank : run.ranks) rank.module->set_uses_batch_norm(false);
    if (count > 1) add_replicas(run, count, a_replica);
    (void)end_of(run);
    accuracies.push_back(run.ranks[0].link->reports().back().accuracy.value());
  }
  EXPECT_NEAR(accuracies[0], accuracies[1], 1e-9);
}

TEST(TrainerOfReplicas, GiveTheWholeBatchToTheEndOfAValidationStep) {
  std::vector<std::vector<torch::Tensor>> batches;
  for (const std::int64_t count : {1, 3}) {
    TrainingRun run{1};
    run.training.max_steps = 3;
    run.training.validate_every = api::Every{.steps = 3};
    run.ranks[0].module->set_uses_batch_norm(false);
    std::vector<torch::Tensor> seen;
    run.ranks[0].module->on_validation_end = [&seen](const StepOutput& output) {
      seen.push_back(output.values.at("logits"));
    };
    if (count > 1) add_replicas(run, count, a_replica);
    (void)end_of(run);
    batches.push_back(seen);
  }
  ASSERT_FALSE(batches[0].empty());
  ASSERT_EQ(batches[0].size(), batches[1].size());
  for (std::size_t batch = 0; batch < batches[0].size(); ++batch)
    EXPECT_TRUE(torch::allclose(batches[0][batch], batches[1][batch], 1e-4, 1e-5)) << batch;
}

TEST(TrainerOfReplicas, EndsWithWhatAReplicaThrows) {
  TrainingRun run{1};
  add_replicas(run, 2, [] {
    auto module = std::make_shared<SmallModule>();
    module->on_step = [](std::int64_t) { throw std::runtime_error{"the second replica is broken"}; };
    return module;
  });
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Threw");
  EXPECT_THAT(run.ranks[0].end.message, HasSubstr("the second replica is broken"));
}

}  // namespace
}  // namespace trainyard::train
