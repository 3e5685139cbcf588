// Trainings whose ranks share gradients and the optimizer's state, against those of ddp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "tests/worker/train/toy_gan.hpp"

namespace trainyard::train {
namespace {

constexpr api::StrategySpec sharded{.name = api::StrategyName::sharded, .bucket_mib = 1};

torch::Tensor flat(const Module& module) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, tensor] : named_parameters(module))
    parts.push_back(tensor.detach().to(torch::kDouble).flatten());
  return torch::cat(parts).clone();
}

/// The parameters of the last rank after a run, in which all ranks must end with equal ones.
torch::Tensor trained(TrainingRun& run) {
  run.run();
  for (const auto& rank : run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
    EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
  }
  const TrainingRun::Rank& last = run.ranks.back();
  return flat(last.other_module ? *last.other_module : *last.module);
}

struct Case {
  std::string what;
  std::function<void(TrainingRun&)> set;
  double difference_max = 1e-5;
};

const Case cases[] = {
    {"Adam", [](TrainingRun&) {}},
    {"AdamW",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::adamw, .lr = 0.01, .weight_decay = 0.1};
       run.training.lr_schedule.name = api::LrScheduleName::cosine;
     }},
    {"SgdWithMomentum",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
     }},
    {"SgdClippedByTheNorm",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"SgdClippedByTheValue",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.gradient_clip = {.norm = {}, .value = 0.01};
     }},
    {"SgdOfTwoBatches",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
       run.training.accumulate_grad_batches = 2;
     }},
    {"SgdWithAnAverage",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.ema = api::EmaSpec{.decay = 0.5};
     }},
    {"SgdOverGroups",
     [](TrainingRun& run) {
       for (auto& rank : run.ranks) {
         rank.module->own_optimizer = [](SmallModule& module) {
           const std::vector<torch::Tensor> all = module.parameters();
           return make_optimizer({.name = "sgd", .lr = 0.05, .momentum = 0.9},
                                 {{.parameters = {all[0], all[1]}, .lr = 0.01},
                                  {.parameters = {all.begin() + 3, all.end()}, .weight_decay = 0.1}},
                                 module);
         };
       }
     }},
    {"SeveralOptimizers",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
       for (auto& rank : run.ranks) rank.other_module = make_toy_gan(3);
     }},
    {"SgdInFp64",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.precision = api::Precision::fp64;
     },
     1e-12},
    {"SgdInBf16Mixed",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.precision = api::Precision::bf16_mixed;
     },
     1e-3},
    {"SgdInFp16Mixed",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.precision = api::Precision::fp16_mixed;
     },
     1e-3},
    {"SgdInBf16",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
       run.training.precision = api::Precision::bf16;
     },
     1e-2},
};

class TrainerSharded : public testing::TestWithParam<Case> {};

TEST_P(TrainerSharded, EndsWithTheParametersOfDdp) {
  for (const std::int64_t world_size : {2, 3, 4}) {
    std::vector<torch::Tensor> ends;
    for (const api::StrategySpec& strategy : {api::StrategySpec{}, sharded}) {
      TrainingRun run{world_size};
      run.training.max_steps = 4;
      run.training.strategy = strategy;
      GetParam().set(run);
      ends.push_back(trained(run));
    }
    EXPECT_LT((ends[0] - ends[1]).abs().max().item<double>(), GetParam().difference_max) << world_size << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerSharded, testing::ValuesIn(cases),
                         [](const auto& info) { return info.param.what; });

const Case resumed[] = {
    {"Adam", [](TrainingRun&) {}},
    {"SgdOfTwoBatchesClippedInFp16Mixed",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05, .momentum = 0.9};
       run.training.precision = api::Precision::fp16_mixed;
       run.training.accumulate_grad_batches = 2;
       run.training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"AdamWThatSkipsWithAnAverage",
     [](TrainingRun& run) {
       run.training.optimizer = {.name = api::OptimizerName::adamw};
       run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
       run.training.ema = api::EmaSpec{.decay = 0.5};
     }},
    {"SeveralOptimizers",
     [](TrainingRun& run) {
       for (auto& rank : run.ranks) rank.other_module = make_toy_gan(3);
     }},
};

class TrainerShardedBits : public testing::TestWithParam<Case> {};

TEST_P(TrainerShardedBits, AreThoseOfATrainingThatWasNotStopped) {
  const fakes::TemporaryFolder folder;
  const auto train_to = [&](std::int64_t max_steps, std::int64_t attempt, const std::string& place) {
    TrainingRun run{3};
    run.training.strategy = sharded;
    run.training.max_steps = max_steps;
    run.training.epochs = 100;
    GetParam().set(run);
    run.attempt = attempt;
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + place;
    return trained(run);
  };
  const torch::Tensor whole = train_to(4, 1, "/whole");
  EXPECT_FALSE(torch::equal(train_to(2, 1, "/parts"), whole));
  EXPECT_TRUE(torch::equal(train_to(4, 2, "/parts"), whole));
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerShardedBits, testing::ValuesIn(resumed),
                         [](const auto& info) { return info.param.what; });

struct Leg {
  std::int64_t world_size;
  bool is_sharded;
};

/// Trains three steps in each leg, each from the checkpoint of the one before.
torch::Tensor train_in(const std::vector<Leg>& legs) {
  const fakes::TemporaryFolder folder;
  torch::Tensor end;
  for (std::size_t index = 0; index < legs.size(); ++index) {
    TrainingRun run{legs[index].world_size};
    if (legs[index].is_sharded) run.training.strategy = sharded;
    run.training.optimizer = {.name = api::OptimizerName::adamw, .lr = 0.01};
    run.training.max_steps = 3 * static_cast<std::int64_t>(index + 1);
    run.training.epochs = 100;
    run.attempt = static_cast<std::int64_t>(index + 1);
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + "/checkpoints";
    end = trained(run);
  }
  return end;
}

TEST(TrainerShardedResume, GoesOnFromAndToDdpWithAnyNumberOfRanks) {
  const std::vector<std::int64_t> world_sizes{2, 3, 1, 4};
  std::vector<Leg> all_ddp, mixed, all_sharded;
  for (const std::int64_t world_size : world_sizes) {
    all_ddp.push_back({.world_size = world_size, .is_sharded = false});
    all_sharded.push_back({.world_size = world_size, .is_sharded = true});
    mixed.push_back({.world_size = world_size, .is_sharded = mixed.size() % 2 == 0});
  }
  mixed.push_back({.world_size = 4, .is_sharded = true});
  const torch::Tensor expected = train_in(all_ddp);
  EXPECT_LT((train_in(all_sharded) - expected).abs().max().item<double>(), 1e-5);
  all_ddp.push_back({.world_size = 4, .is_sharded = false});
  EXPECT_LT((train_in(mixed) - train_in(all_ddp)).abs().max().item<double>(), 1e-5);
}

TEST(TrainerShardedSteps, LeaveTheParametersAsTheyAreWhereTheLossOfOneRankIsNotFinite) {
  std::vector<torch::Tensor> ends;
  for (const api::StrategySpec& strategy : {api::StrategySpec{}, sharded}) {
    TrainingRun run{2};
    run.training.strategy = strategy;
    run.training.max_steps = 4;
    run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
    run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
    SmallModule& module = *run.ranks[1].module;
    module.on_step = [&module, seen = 0](std::int64_t) mutable {
      module.loss_factor = ++seen == 2 ? std::numeric_limits<double>::infinity() : 1.0;
    };
    ends.push_back(trained(run));
  }
  EXPECT_TRUE(ends[1].isfinite().all().item<bool>());
  EXPECT_LT((ends[0] - ends[1]).abs().max().item<double>(), 1e-5);
}

TEST(TrainerShardedSteps, EndAsPeerLostWhenARankIsGone) {
  TrainingRun run{2};
  run.training.strategy = sharded;
  run.training.max_steps = 4;
  run.ranks[1].module->on_step = [seen = 0](std::int64_t) mutable {
    if (++seen == 2) throw std::runtime_error{"the rank dies"};
  };
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "PeerLost");
}

TEST(TrainerShardedSteps, LowerTheScaleOfTheLossOnAllRanksWhenTheRowsOfOneOverflow) {
  TrainingRun run{2};
  run.training.strategy = sharded;
  run.training.max_steps = 3;
  run.training.precision = api::Precision::fp16_mixed;
  for (auto& rank : run.ranks) {
    rank.module->named_parameters()["out.bias"].register_hook([](const torch::Tensor& gradient) {
      torch::Tensor changed = gradient.clone();
      changed[0] = std::numeric_limits<double>::infinity();  // Its row is on one rank.
      return changed;
    });
  }
  const torch::Tensor before = flat(*run.ranks[0].module);
  EXPECT_TRUE(torch::equal(trained(run), before));
}

}  // namespace
}  // namespace trainyard::train
