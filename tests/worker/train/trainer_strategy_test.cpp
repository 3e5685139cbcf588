// Trainings with each way of exchanging gradients.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

/// PowerSGD from the second step on.
api::StrategySpec factored() {
  return {.gradient_compression = api::GradientCompression::powersgd, .power_sgd = {.rank = 2, .start_step = 1}};
}

struct Strategy {
  std::string what;
  std::function<void(api::TrainingSpec&)> set;
  bool has_own_state = false;      // of each rank, also after the end
  std::vector<std::int64_t> pods;  // the ranks of each; none: two ranks
};

const Strategy strategies[] = {
    {"Fp16",
     [](api::TrainingSpec& training) { training.strategy.gradient_compression = api::GradientCompression::fp16; }},
    {"Bf16OfFp16Mixed",
     [](api::TrainingSpec& training) {
       training.strategy.gradient_compression = api::GradientCompression::bf16;
       training.precision = api::Precision::fp16_mixed;
     }},
    {"PowerSgd", [](api::TrainingSpec& training) { training.strategy = factored(); }},
    {"PowerSgdWithoutWarmStart",
     [](api::TrainingSpec& training) {
       training.strategy = factored();
       training.strategy.power_sgd.warm_start = false;
     }},
    {"PowerSgdOfTwoBatchesInBf16Mixed",
     [](api::TrainingSpec& training) {
       training.strategy = factored();
       training.accumulate_grad_batches = 2;
       training.precision = api::Precision::bf16_mixed;
       training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"PowerSgdThatSkips",
     [](api::TrainingSpec& training) {
       training.strategy = factored();
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     }},
    {"HorovodOfTwoBatches",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::horovod,
                            .gradient_compression = api::GradientCompression::fp16,
                            .fusion_threshold_mib = 0,
                            .gradient_predivide_factor = 2.0};
       training.accumulate_grad_batches = 2;
     }},
    {"TunedBuckets", [](api::TrainingSpec& training) { training.strategy.autotune = true; }},
    {"HorovodsSum",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::horovod, .op = api::ReductionOp::sum};
     }},
    {"Adasum",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::horovod, .op = api::ReductionOp::adasum};
       training.accumulate_grad_batches = 2;
       training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"AdasumInBf16ThatSkips",
     [](api::TrainingSpec& training) {
       training.strategy = {
           .name = api::StrategyName::horovod, .fusion_threshold_mib = 0, .op = api::ReductionOp::adasum};
       training.precision = api::Precision::bf16;
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     }},
    {"BaguaAllreduceInFp64",
     [](api::TrainingSpec& training) {
       training.strategy.name = api::StrategyName::bagua;
       training.precision = api::Precision::fp64;
     }},
    {"ByteGradThatSkips",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad};
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     }},
    {"ByteGradOfTwoBatchesInFp16Mixed",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad};
       training.precision = api::Precision::fp16_mixed;
       training.accumulate_grad_batches = 2;
       training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"ByteGradInBf16",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad};
       training.precision = api::Precision::bf16;
     }},
    {"QAdamOfTwoBatchesThatSkips",
     [](api::TrainingSpec& training) {
       training.strategy = {
           .name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::qadam, .qadam_warmup_steps = 2};
       training.accumulate_grad_batches = 2;
       training.optimizer.weight_decay = 0.01;
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     }},
    {"QAdamInBf16",
     [](api::TrainingSpec& training) {
       training.strategy = {
           .name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::qadam, .qadam_warmup_steps = 4};
       training.precision = api::Precision::bf16;
     }},
    {"SyncBatchNorm",
     [](api::TrainingSpec& training) {
       training.strategy.sync_batch_norm = true;
       training.strategy.broadcast_buffers = false;
       training.accumulate_grad_batches = 2;
     }},
    {"SyncBatchNormInBf16",
     [](api::TrainingSpec& training) {
       training.strategy.sync_batch_norm = true;
       training.precision = api::Precision::bf16;
     }},
    {"OwnBuffers", [](api::TrainingSpec& training) { training.strategy.broadcast_buffers = false; },
     /*has_own_state=*/true},
    {"DecentralizedWithAllOfTwoBatches",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized};
       training.accumulate_grad_batches = 2;
       training.gradient_clip = {.norm = 0.1, .value = {}};
     },
     /*has_own_state=*/true},
    {"DecentralizedWithOneThatSkipsInFp64",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::decentralized,
                            .peer_selection = api::PeerSelection::shift_one,
                            .communication_interval = 2};
       training.precision = api::Precision::fp64;
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     },
     /*has_own_state=*/true},
    {"LowPrecisionDecentralized",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::low_precision_decentralized,
                            .communication_interval = 2};
     },
     /*has_own_state=*/true},
    {"LowPrecisionDecentralizedInBf16",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::low_precision_decentralized};
       training.precision = api::Precision::bf16;
     },
     /*has_own_state=*/true},
    {"QAdamByPodOfTwoBatches",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::qadam,
                            .qadam_warmup_steps = 2,
                            .hierarchical = true};
       training.accumulate_grad_batches = 2;
     },
     /*has_own_state=*/false,
     /*pods=*/{2, 2}},
    {"DecentralizedByPodWithOneOther",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::decentralized,
                            .hierarchical = true,
                            .peer_selection = api::PeerSelection::shift_one,
                            .communication_interval = 2};
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     },
     /*has_own_state=*/true,
     /*pods=*/{2, 2}},
    {"LowPrecisionDecentralizedByPod",
     [](api::TrainingSpec& training) {
       training.strategy = {.name = api::StrategyName::bagua,
                            .algorithm = api::BaguaAlgorithm::low_precision_decentralized,
                            .hierarchical = true,
                            .communication_interval = 2};
     },
     /*has_own_state=*/true,
     /*pods=*/{2, 1}},
};

class TrainerStrategy : public testing::TestWithParam<Strategy> {};

TEST_P(TrainerStrategy, ResumesToTheBitOnEachRank) {
  const auto run_until = [&](std::int64_t stop, std::int64_t attempt, const fakes::TemporaryFolder* folder) {
    const std::vector<std::int64_t>& pods = GetParam().pods;
    TrainingRun run{pods.empty() ? 2 : std::accumulate(pods.begin(), pods.end(), std::int64_t{0})};
    run.pods = pods;
    run.training.max_steps = 8;
    GetParam().set(run.training);
    run.attempt = attempt;
    if (folder != nullptr) {
      run.checkpoint.emplace();
      run.checkpoint->uri = folder->uri() + "/checkpoints";
    }
    run.ranks[1].module->on_step = [&run, stop, seen = std::int64_t{0}](std::int64_t) mutable {
      if (++seen == stop) run.ranks[1].link->request_stop();
    };
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, stop > 0 ? "Preempted" : "Completed") << run.ranks[0].end.message;
    EXPECT_EQ(run.ranks[0].checksum != run.ranks[1].checksum, GetParam().has_own_state);
    std::vector<std::uint64_t> checksums;
    for (const TrainingRun::Rank& rank : run.ranks) checksums.push_back(rank.checksum);
    return checksums;
  };
  const auto whole = run_until(0, 1, nullptr);
  const fakes::TemporaryFolder folder;
  EXPECT_NE(run_until(3, 1, &folder), whole);
  EXPECT_EQ(run_until(0, 2, &folder), whole);
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerStrategy, testing::ValuesIn(strategies),
                         [](const auto& info) { return info.param.what; });

/// Trains in steps of three, each with another number of ranks, and returns the last run's module on its last rank.
std::shared_ptr<SmallModule> train_with_other_numbers_of_ranks(const std::vector<std::int64_t>& world_sizes,
                                                               const api::StrategySpec& strategy) {
  const fakes::TemporaryFolder folder;
  std::shared_ptr<SmallModule> module;
  for (std::size_t index = 0; index < world_sizes.size(); ++index) {
    TrainingRun run{world_sizes[index]};
    run.training.strategy = strategy;
    run.training.max_steps = 3 * static_cast<std::int64_t>(index + 1);
    run.training.epochs = 100;
    run.attempt = static_cast<std::int64_t>(index + 1);
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + "/checkpoints";
    run.run();
    for (const auto& rank : run.ranks) EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
    module = run.ranks.back().module;
  }
  return module;
}

TEST(TrainerStrategies, GoOnWithOtherNumbersOfRanks) {
  train_with_other_numbers_of_ranks({2, 3, 1, 2}, factored());
  for (const auto algorithm : {api::BaguaAlgorithm::qadam, api::BaguaAlgorithm::decentralized,
                               api::BaguaAlgorithm::low_precision_decentralized, api::BaguaAlgorithm::async})
    train_with_other_numbers_of_ranks(
        {2, 3, 1, 2},
        {.name = api::StrategyName::bagua, .algorithm = algorithm, .qadam_warmup_steps = 2, .sync_interval_ms = 1});
  train_with_other_numbers_of_ranks({2, 4, 1, 2}, {.name = api::StrategyName::horovod, .op = api::ReductionOp::adasum});
}

TEST(TrainerStrategies, EndWithTheCulpritWhenARankIsLost) {
  for (const auto algorithm : {api::BaguaAlgorithm::qadam, api::BaguaAlgorithm::decentralized,
                               api::BaguaAlgorithm::low_precision_decentralized, api::BaguaAlgorithm::async}) {
    TrainingRun run;
    run.training.epochs = 100;
    run.training.strategy = {.name = api::StrategyName::bagua, .algorithm = algorithm, .qadam_warmup_steps = 1};
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
}

/// Trains by async, with validations and checkpoints on the way, and returns the loss that was reported last. `stop`:
/// the step in which rank 1 is asked to stop.
double train_by_async(const fakes::TemporaryFolder* folder, std::int64_t attempt, std::int64_t stop) {
  TrainingRun run;
  run.training.strategy = {.name = api::StrategyName::bagua,
                           .algorithm = api::BaguaAlgorithm::async,
                           .sync_interval_ms = 1,
                           .async_warmup_steps = 2};
  run.training.optimizer.lr = 0.01;
  run.training.epochs = 12;
  run.attempt = attempt;
  if (folder != nullptr) {
    run.checkpoint.emplace();
    run.checkpoint->uri = folder->uri() + "/checkpoints";
    run.checkpoint->every.steps = 4;
    run.checkpoint->when_busy = api::WhenBusy::wait;
  }
  std::vector<std::uint64_t> begun_with(2);  // checksums
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run.ranks[rank].module->on_step = [&, rank, stop, seen = std::int64_t{0}](std::int64_t) mutable {
      if (++seen == 1) begun_with[rank] = strategy::checksum(named_parameters(*run.ranks[rank].module));
      if (rank == 1 && seen == stop) run.ranks[1].link->request_stop();
    };
  }
  run.run();
  for (const auto& rank : run.ranks)
    EXPECT_EQ(rank.end.reason, stop > 0 ? "Preempted" : "Completed") << rank.end.message;
  EXPECT_EQ(begun_with[0], begun_with[1]) << "a checkpoint holds what the ranks have left the rounds with";
  // The ranks leave the rounds with equal parameters. Each keeps its own buffers.
  const auto first = run.ranks[0].module->parameters(), second = run.ranks[1].module->parameters();
  for (std::size_t index = 0; index < first.size(); ++index) EXPECT_TRUE(torch::equal(first[index], second[index]));
  const auto reports = run.ranks[0].link->reports();
  EXPECT_EQ(reports.back().checkpoint.has_value(), folder != nullptr);
  return reports.back().loss.value_or(NAN);
}

TEST(TrainerStrategies, OfRoundsInTheBackgroundLearnAndStopAndResume) {
  const fakes::TemporaryFolder folder;
  const double at_stop = train_by_async(&folder, 1, 7);
  const double at_end = train_by_async(&folder, 2, 0);
  EXPECT_LT(at_end, at_stop / 2);
  train_by_async(nullptr, 1, 7);  // Nothing is saved at the stop.
}

TEST(TrainerStrategies, GiveARankThatTheCheckpointLacksTheBuffersOfRankZero) {
  const auto module = train_with_other_numbers_of_ranks({2, 3}, {.broadcast_buffers = false});
  for (const auto& [name, buffer] : named_buffers(*module)) {
    // Six batches, of which three were another rank's.
    if (name == "norm.num_batches_tracked") {
      EXPECT_EQ(buffer.item<std::int64_t>(), 6);
    }
  }
}

TEST(TrainerStrategies, SaveNothingWhereARanksOwnParametersAreNotFinite) {
  SavingRun saving{2, 6, api::WhenBusy::wait};
  saving.run.training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized};
  saving.run.training.on_non_finite_loss = api::OnNonFiniteLoss::proceed;
  // The loss of step 4 is finite, and the gradient of rank 1 is not.
  saving.at_step(1, 4, [&saving] {
    torch::Tensor parameter = saving.run.ranks[1].module->parameters().back();
    parameter.register_hook([](const torch::Tensor& gradient) { return gradient * NAN; });
  });
  saving.run.run();
  EXPECT_TRUE(saving.saved(0).contains(2));
  EXPECT_FALSE(saving.saved(0).contains(4)) << "rank 0's own parameters are finite";
}

TEST(TrainerStrategies, EndWithTheNameOfTheRankWhoseParametersDifferBeforeTheyAreSaved) {
  for (const bool is_checked : {true, false}) {
    SavingRun saving{2, 8, api::WhenBusy::wait};
    if (is_checked) saving.run.training.strategy.check_parameters_every = 2;
    saving.at_step(1, 3, [&saving] {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : saving.run.ranks[1].module->parameters()) parameter.add_(1);
    });
    saving.run.run();
    for (const auto& rank : saving.run.ranks) {
      EXPECT_EQ(rank.end.reason, "ParametersDiffer");
      EXPECT_THAT(rank.end.message, HasSubstr("the parameters of rank 1 are not bit-equal to rank 0's"));
    }
    EXPECT_EQ(saving.saved(0).contains(4), !is_checked);
  }
}

}  // namespace
}  // namespace trainyard::train
