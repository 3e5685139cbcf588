// Trainings whose ranks have parts of the parameters, against those whose ranks have them whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "tests/worker/train/toy_gan.hpp"

namespace trainyard::train {
namespace {

api::StrategySpec sharded_strategy(bool shards_parameters) {
  return {.name = api::StrategyName::sharded, .bucket_mib = 1, .shard_parameters = shards_parameters};
}

/// The parameters after a run, in which all ranks must end with equal ones.
std::vector<torch::Tensor> parameters_after(TrainingRun& run) {
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
    EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
  }
  return run.ranks.back().parameters;
}

void expect_bits(const std::vector<torch::Tensor>& ours, const std::vector<torch::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  ASSERT_FALSE(ours.empty());
  for (std::size_t index = 0; index < ours.size(); ++index) EXPECT_TRUE(torch::equal(ours[index], theirs[index]));
}

struct PartsCase {
  std::string what;
  std::function<void(TrainingRun&)> set;
};

const PartsCase parts_cases[] = {
    {"Adam", [](TrainingRun&) {}},
    {"SgdOfTwoBatchesClippedInBf16Mixed",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
       run.training.precision = api::Precision::bf16_mixed;
       run.training.accumulate_grad_batches = 2;
       run.training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"AdamWInFp16MixedThatSkipsWithAnAverage",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::adamw};
       run.training.precision = api::Precision::fp16_mixed;
       run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
       run.training.ema = api::EmaSpec{.decay = 0.5};
       run.training.validate_every =
           api::Every{.steps = 2};  // The steps after it begin with the trained parameters again.
     }},
    {"SgdInBf16",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.precision = api::Precision::bf16;
     }},
};

class TrainerShardParameters : public testing::TestWithParam<PartsCase> {};

TEST_P(TrainerShardParameters, EndsWithTheBitsAndMetricsOfWholeParameters) {
  for (const std::int64_t world_size : {2, 4}) {
    std::vector<std::vector<torch::Tensor>> ends;
    std::vector<std::string> messages;
    for (const bool shards_parameters : {false, true}) {
      TrainingRun run{world_size};
      run.training.max_steps = 6;
      run.training.strategy = sharded_strategy(shards_parameters);
      GetParam().set(run);
      ends.push_back(parameters_after(run));
      messages.push_back(run.ranks[0].end.message);  // It has the metrics of the validation.
    }
    expect_bits(ends[1], ends[0]);
    EXPECT_EQ(messages[1], messages[0]);
  }
}

TEST_P(TrainerShardParameters, ResumesToTheBits) {
  const fakes::TemporaryFolder folder;
  const auto train_to = [&](std::int64_t max_steps, std::int64_t attempt, const std::string& place) {
    TrainingRun run{3};
    run.training.strategy = sharded_strategy(true);
    run.training.max_steps = max_steps;
    run.training.epochs = 100;
    GetParam().set(run);
    run.attempt = attempt;
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + place;
    return parameters_after(run);
  };
  const auto whole = train_to(4, 1, "/whole");
  static_cast<void>(train_to(2, 1, "/parts"));
  expect_bits(train_to(4, 2, "/parts"), whole);
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerShardParameters, testing::ValuesIn(parts_cases),
                         [](const auto& info) { return info.param.what; });

TEST(TrainerShardParametersResume, GoesOnFromAndToOtherStrategiesWithAnyNumberOfRanks) {
  struct Leg {
    std::int64_t world_size;
    api::StrategySpec strategy;
  };
  const auto train_in = [](const std::vector<Leg>& legs) {
    const fakes::TemporaryFolder folder;
    std::vector<torch::Tensor> end;
    std::int64_t attempt = 0;
    for (const Leg& leg : legs) {
      TrainingRun run{leg.world_size};
      run.training.strategy = leg.strategy;
      run.training.optimizer = {.name = api::OptimizerName::adamw, .lr = 0.01};
      run.training.ema = api::EmaSpec{.decay = 0.5};
      run.attempt = ++attempt;
      run.training.max_steps = 3 * attempt;
      run.training.epochs = 100;
      run.checkpoint.emplace();
      run.checkpoint->uri = folder.uri() + "/checkpoints";
      end = parameters_after(run);
    }
    return end;
  };
  const api::StrategySpec ddp{}, whole = sharded_strategy(false), parts = sharded_strategy(true);
  const auto ours = train_in({{2, parts}, {3, parts}, {1, parts}, {4, ddp}, {2, parts}, {3, whole}, {4, parts}});
  const auto theirs = train_in({{2, ddp}, {3, ddp}, {1, ddp}, {4, ddp}, {2, ddp}, {3, ddp}, {4, ddp}});
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t index = 0; index < ours.size(); ++index)
    EXPECT_LT((ours[index] - theirs[index]).abs().max().item<double>(), 1e-5);
}

TEST(TrainerShardParametersStart, BeginsWithTheWeightsOfTheJob) {
  const fakes::TemporaryFolder folder;
  TrainingRun first{2};
  first.training.max_steps = 2;
  first.checkpoint.emplace();
  first.checkpoint->uri = folder.uri() + "/first";
  static_cast<void>(parameters_after(first));
  std::vector<std::vector<torch::Tensor>> ends;
  for (const bool shards_parameters : {false, true}) {
    TrainingRun run{2};
    run.training.max_steps = 2;
    run.training.strategy = sharded_strategy(shards_parameters);
    run.training.model.weights = folder.uri() + "/first";
    ends.push_back(parameters_after(run));
  }
  expect_bits(ends[1], ends[0]);
}

TEST(TrainerShardParametersSteps, EndWithTheRoundsFailureWhenARankIsGone) {
  TrainingRun run{2};
  run.training.strategy = sharded_strategy(true);
  run.training.max_steps = 4;
  run.ranks[1].module->on_step = [seen = 0](std::int64_t) mutable {
    if (++seen == 2) throw std::runtime_error{"the rank dies"};
  };
  run.run();
  // The trainer's caller makes a PeerLost of it: see end_of() in ending.hpp.
  EXPECT_THAT(run.ranks[0].end.message, testing::HasSubstr("the ranks' round"));
}

TEST(TrainerShardParametersStart, RefusesSeveralOptimizers) {
  fakes::run_ranks(2, [](fakes::RankThread& thread) {
    const auto module = make_toy_gan(3);
    dist::Group group{.rank = thread.rank,
                      .world_size = thread.world_size,
                      .store = {},
                      .process_group = thread.process_group,
                      .pods = {},
                      .communicator = std::move(thread.communicator),
                      .checkpoint_communicator = {},
                      .averaging_reducer = {}};
    try {
      static_cast<void>(open_turns(*module, {}, [&](NamedTensors parameters, NamedTensors buffers) {
        return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), group, fakes::plain_wait, {},
                                            sharded_strategy(true));
      }));
      ADD_FAILURE() << "one turn uses the parameters of the other";
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("shardParameters is for a model with one optimizer"));
    }
  });
}

}  // namespace
}  // namespace trainyard::train
