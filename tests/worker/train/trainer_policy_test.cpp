// Trainings with schedules, clipping, other precisions, averages and policies for losses that are not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "checkpoint/snapshot/history.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

api::CheckpointSpec saved_in(const fakes::TemporaryFolder& folder) {
  api::CheckpointSpec spec;
  spec.uri = folder.uri() + "/checkpoints";
  return spec;
}

/// Makes the loss of rank `rank` not-a-number in batch `batch` (from 1) alone.
void spoil(TrainingRun& run, std::size_t rank, std::int64_t batch) {
  SmallModule& module = *run.ranks[rank].module;
  module.on_step = [&module, batch, seen = std::int64_t{0}](std::int64_t) mutable {
    module.loss_factor = ++seen == batch ? nan : 1.0;
  };
}

/// The values that a run of one rank logs of each metric, by step.
std::map<std::string, std::vector<double>> logged(SavingRun& saving) {
  saving.run.training.log_every.steps = 1;
  saving.run.open_snapshots = [&saving] { return saving.run.open_store(0); };
  saving.run.training.snapshots.emplace();
  saving.run.training.snapshots->every = {.steps = 100, .epochs = {}, .time = {}};
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end.reason, "Completed") << saving.run.ranks[0].end.message;
  std::map<std::string, std::vector<double>> values;
  fakes::MemoryStore store{saving.objects};
  const auto shelf = snapshot::list_snapshots(store);
  for (const auto& listed : shelf->snapshots) {
    const auto each = snapshot::read_snapshot(store, listed.id).value();
    for (const auto& point : each.points)
      if (point.over == snapshot::Over::steps) values[point.name].push_back(point.value);
  }
  return values;
}

struct Policy {
  std::string what;
  std::function<void(api::TrainingSpec&)> set;
};

/// Each changes what a checkpoint must hold for a run to resume to the bit.
const Policy policies[] = {
    {"ACosineAfterAWarmUp",
     [](api::TrainingSpec& training) {
       training.lr_schedule = {.name = api::LrScheduleName::cosine, .warmup_steps = 3};
       training.optimizer.lr_scaling = api::LrScaling::sqrt;
     }},
    {"Plateau",
     [](api::TrainingSpec& training) {
       training.lr_schedule = {.name = api::LrScheduleName::plateau, .metric = "val_accuracy", .patience = 0};
       training.validate_every = api::Every{.steps = 1, .epochs = {}, .time = {}};
     }},
    {"Clipping", [](api::TrainingSpec& training) { training.gradient_clip = {.norm = 0.01, .value = {}}; }},
    {"Lamb", [](api::TrainingSpec& training) { training.optimizer.name = api::OptimizerName::lamb; }},
    {"Ema",
     [](api::TrainingSpec& training) {
       training.ema = api::EmaSpec{.decay = 0.5};
       training.lr_schedule = {.name = api::LrScheduleName::plateau, .metric = "val_loss", .patience = 0};
       training.validate_every = api::Every{.steps = 1, .epochs = {}, .time = {}};
     }},
    {"Skip", [](api::TrainingSpec& training) { training.on_non_finite_loss = api::OnNonFiniteLoss::skip; }},
    {"ChannelsLast", [](api::TrainingSpec& training) { training.channels_last = true; }},
    {"Fp16Mixed", [](api::TrainingSpec& training) { training.precision = api::Precision::fp16_mixed; }},
    {"Fp16MixedOfTwoBatches",
     [](api::TrainingSpec& training) {
       training.precision = api::Precision::fp16_mixed;
       training.accumulate_grad_batches = 2;
     }},
    {"Bf16Mixed", [](api::TrainingSpec& training) { training.precision = api::Precision::bf16_mixed; }},
    {"Fp16True", [](api::TrainingSpec& training) { training.precision = api::Precision::fp16; }},
    {"Bf16True", [](api::TrainingSpec& training) { training.precision = api::Precision::bf16; }},
    {"Fp64True", [](api::TrainingSpec& training) { training.precision = api::Precision::fp64; }},
};

class TrainerPolicy : public testing::TestWithParam<Policy> {};

TEST_P(TrainerPolicy, ResumesToTheBit) {
  const auto run_until = [&](std::int64_t stop, std::int64_t attempt, const fakes::TemporaryFolder* folder) {
    TrainingRun run;
    run.training.max_steps = 8;
    GetParam().set(run.training);
    run.attempt = attempt;
    if (folder != nullptr) run.checkpoint = saved_in(*folder);
    run.ranks[1].module->on_step = [&run, stop, seen = std::int64_t{0}](std::int64_t) mutable {
      if (++seen == stop) run.ranks[1].link->request_stop();
    };
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, stop > 0 ? "Preempted" : "Completed") << run.ranks[0].end.message;
    EXPECT_EQ(run.ranks[0].checksum, run.ranks[1].checksum);
    return run.ranks[0].checksum;
  };
  const auto whole = run_until(0, 1, nullptr);
  const fakes::TemporaryFolder folder;
  EXPECT_NE(run_until(3, 1, &folder), whole);
  EXPECT_EQ(run_until(0, 2, &folder), whole);
}

INSTANTIATE_TEST_SUITE_P(Table, TrainerPolicy, testing::ValuesIn(policies),
                         [](const auto& info) { return info.param.what; });

TEST(TrainerPolicies, TrainInEachPrecision) {
  std::map<api::Precision, double> losses;
  for (const auto precision : {api::Precision::fp32, api::Precision::fp64, api::Precision::bf16_mixed,
                               api::Precision::fp16_mixed, api::Precision::bf16, api::Precision::fp16}) {
    TrainingRun run{1};
    run.training.max_steps = 20;
    run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.05};
    run.training.precision = precision;
    run.run();
    ASSERT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    losses[precision] = *run.ranks[0].link->reports().back().loss;
    const bool is_mixed = precision == api::Precision::bf16_mixed || precision == api::Precision::fp16_mixed;
    const auto type = number_format(run.training).type.value_or(torch::kFloat);
    if (is_mixed) {
      EXPECT_EQ(type, torch::kFloat);
    }
    for (const auto& [name, parameter] : named_parameters(*run.ranks[0].module))
      EXPECT_EQ(parameter.scalar_type(), type) << name;
  }
  for (const auto& [precision, loss] : losses) EXPECT_NEAR(loss, losses[api::Precision::fp32], 0.1);
  EXPECT_NEAR(losses[api::Precision::fp64], losses[api::Precision::fp32], 1e-4);
}

TEST(TrainerPolicies, LowerTheScaleInsteadOfASkippedStepIn16Mixed) {
  TrainingRun spoilt{1};
  spoilt.training.max_steps = 1;
  spoilt.training.precision = api::Precision::fp16_mixed;
  const auto before = spoilt.ranks[0].module->parameters()[2].detach().clone();
  spoilt.ranks[0].module->loss_factor = std::numeric_limits<double>::infinity();
  spoilt.run();
  EXPECT_TRUE(torch::equal(spoilt.ranks[0].module->parameters()[2].detach(), before));
}

TEST(TrainerPolicies, ClipIn16MixedTheGradientsOfTheLossItself) {
  const auto norms_in = [](api::Precision precision) {
    SavingRun saving{1, 1};
    saving.run.training.precision = precision;
    saving.run.training.gradient_clip = {.norm = 1e-3, .value = {}};
    return logged(saving)["grad_norm"];
  };
  const auto plain = norms_in(api::Precision::fp32);
  const auto mixed = norms_in(api::Precision::fp16_mixed);
  ASSERT_EQ(plain.size(), 1U);
  ASSERT_EQ(mixed.size(), 1U);
  EXPECT_NEAR(mixed.front(), plain.front(), 0.1 * plain.front()) << "and not those of the scaled loss";
}

TEST(TrainerPolicies, LogTheRateInUseAndTheNormBeforeClipping) {
  SavingRun saving{1, 4};
  saving.run.training.optimizer.lr = 0.1;
  saving.run.training.lr_schedule = {.name = api::LrScheduleName::linear};
  saving.run.training.gradient_clip = {.norm = 1e-3, .value = {}};
  const auto values = logged(saving);
  const std::vector<double> rates{0.1, 0.075, 0.05, 0.025};
  ASSERT_EQ(values.at("lr").size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(values.at("lr")[i], rates[i], 1e-12);
  ASSERT_EQ(values.at("grad_norm").size(), 4U);
  for (const double norm : values.at("grad_norm")) EXPECT_GT(norm, 0.01);

  SavingRun plain{1, 2};
  const auto none = logged(plain);
  EXPECT_FALSE(none.contains("lr"));
  EXPECT_FALSE(none.contains("grad_norm"));
}

TEST(TrainerPolicies, RefuseAScheduleThatTheModelsOwnOptimizerWouldNotFollow) {
  class Own final : public Optimizer {
   public:
    void step() override {}
    [[nodiscard]] NamedTensors state() override { return {}; }
  };
  TrainingRun run{1};
  run.training.lr_schedule = {.name = api::LrScheduleName::cosine};
  run.ranks[0].module->own_optimizer = [](SmallModule&) { return std::make_unique<Own>(); };
  run.run();
  EXPECT_THAT(run.ranks[0].end.message, HasSubstr("set_lr_factor()"));
}

TEST(TrainerPolicies, RefuseAMetricThatNoValidationHas) {
  TrainingRun run;
  run.training.early_stopping = api::EarlyStoppingSpec{.metric = "val_los"};
  run.run();
  for (const auto& rank : run.ranks) EXPECT_THAT(rank.end.message, HasSubstr("(there is: val_accuracy, val_loss)"));
}

TEST(OnNonFiniteLoss, EndsEveryRankAlikeWithTheStepTheRankAndTheLoss) {
  for (const auto& [policy, code, text] :
       {std::tuple{api::OnNonFiniteLoss::stop, contract::exit_do_not_restart, "onNonFiniteLoss is stop"},
        std::tuple{api::OnNonFiniteLoss::rewind, contract::exit_failure, "goes back to its newest checkpoint"}}) {
    for (const auto& [world_size, bad] : {std::pair{2, 1}, std::pair{2, 0}, std::pair{1, 0}}) {
      TrainingRun run{world_size};
      run.training.max_steps = 9;
      run.training.on_non_finite_loss = policy;
      spoil(run, static_cast<std::size_t>(bad), 4);
      run.run();
      for (const auto& rank : run.ranks) {
        EXPECT_EQ(rank.end.exit_code, code);
        EXPECT_EQ(rank.end.reason, "NonFiniteLoss");
        EXPECT_THAT(rank.end.message, HasSubstr(fmt::format("the loss of rank {} is nan in step 4", bad)));
        EXPECT_THAT(rank.end.message, HasSubstr(text));
        EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
      }
      for (const auto& [name, parameter] : named_parameters(*run.ranks[0].module))
        EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>()) << name;
    }
  }
}

TEST(OnNonFiniteLoss, IsOfAnyBatchOfTheStep) {
  TrainingRun run;
  run.training.max_steps = 9;
  run.training.accumulate_grad_batches = 2;
  run.training.on_non_finite_loss = api::OnNonFiniteLoss::stop;
  spoil(run, 1, 3);  // The first of the two batches of the second step.
  run.run();
  for (const auto& rank : run.ranks) EXPECT_THAT(rank.end.message, HasSubstr("the loss of rank 1 is nan in step 2"));
}

TEST(OnNonFiniteLoss, RewindGoesOnFromTheNewestCheckpoint) {
  TrainingRun whole;
  whole.training.max_steps = 9;
  whole.run();
  const fakes::TemporaryFolder folder;
  for (const std::int64_t attempt : {1, 2}) {
    TrainingRun run;
    run.training.max_steps = 9;
    run.training.on_non_finite_loss = api::OnNonFiniteLoss::rewind;
    run.checkpoint = saved_in(folder);
    run.checkpoint->every.steps = 2;
    run.checkpoint->when_busy = api::WhenBusy::wait;
    run.attempt = attempt;
    if (attempt == 1) spoil(run, 0, 6);
    run.run();
    EXPECT_EQ(run.ranks[1].end.reason, attempt == 1 ? "NonFiniteLoss" : "Completed") << run.ranks[1].end.message;
    if (attempt == 2) {
      EXPECT_EQ(run.ranks[0].checksum, whole.ranks[0].checksum);
    }
  }
}

TEST(OnNonFiniteLoss, EndsOnlyWhenTheSaveUnderWayIsWritten) {
  for (const auto policy : {api::OnNonFiniteLoss::stop, api::OnNonFiniteLoss::rewind}) {
    SavingRun saving{2, 9};
    saving.run.training.on_non_finite_loss = policy;
    spoil(saving.run, 1, 3);
    fakes::Gate gate;
    saving.hold_up(2, gate);
    saving.open_when_waiting(gate, 2);
    saving.run.on_end = [&gate] { gate.open(); };
    saving.run.run();
    for (std::size_t rank = 0; rank < saving.run.ranks.size(); ++rank) {
      EXPECT_EQ(saving.run.ranks[rank].end.reason, "NonFiniteLoss") << saving.run.ranks[rank].end.message;
      EXPECT_EQ(saving.saved(rank), Steps{2});
    }
  }
}

TEST(OnNonFiniteLoss, SkipChangesNeitherParametersNorStateNorBuffersInThatStep) {
  // The step that is skipped is the second of two: what is left is the first step.
  const auto run_steps = [](std::int64_t steps, std::int64_t spoilt_batch, std::int64_t batches_of_step = 1) {
    TrainingRun run;
    run.training.max_steps = steps;
    run.training.accumulate_grad_batches = batches_of_step;
    run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
    spoil(run, 1, spoilt_batch);
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    EXPECT_THAT(run.ranks[0].end.message, HasSubstr(fmt::format("trained {} steps", steps)));
    EXPECT_EQ(run.ranks[0].end.message.ends_with("since a loss was not finite: 1"), spoilt_batch != 0);
    EXPECT_EQ(run.ranks[0].checksum, run.ranks[1].checksum);
    return run.ranks[0].checksum;
  };
  EXPECT_EQ(run_steps(2, 2), run_steps(1, 0)) << "parameters and the statistics of BatchNorm";
  for (const std::int64_t batch : {3, 4})
    EXPECT_EQ(run_steps(2, batch, 2), run_steps(1, 0, 2)) << "each of the two batches of a step";
  EXPECT_NE(run_steps(3, 2), run_steps(1, 0)) << "it trains on";
}

TEST(OnNonFiniteLoss, SkipTrainsToTheBitAsContinueWhileLossesAreFinite) {
  const auto run_with = [](api::OnNonFiniteLoss policy) {
    TrainingRun run;
    run.training.max_steps = 5;
    run.training.on_non_finite_loss = policy;
    run.run();
    return run.ranks[1].checksum;
  };
  EXPECT_EQ(run_with(api::OnNonFiniteLoss::skip), run_with(api::OnNonFiniteLoss::proceed));
}

TEST(TrainerEma, ValidatesWithTheAverageAndTrainsWithTheParameters) {
  const auto run_with = [](std::optional<api::EmaSpec> ema) {
    TrainingRun run;
    run.training.max_steps = 5;
    run.training.ema = ema;
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    return std::pair{run.ranks[0].checksum, run.ranks[0].end.message};
  };
  const auto plain = run_with({});
  const auto latest = run_with(api::EmaSpec{.decay = 0.0});
  const auto slow = run_with(api::EmaSpec{.decay = 0.9});
  EXPECT_EQ(latest.first, plain.first);
  EXPECT_EQ(slow.first, plain.first);
  EXPECT_EQ(latest.second, plain.second) << "an average with decay 0 is the parameters";
  EXPECT_NE(slow.second, plain.second);
}

TEST(TrainerEma, GivesTheParametersBackWhenAValidationFails) {
  TrainingRun plain{1}, failed{1};
  plain.training.max_steps = failed.training.max_steps = 3;
  failed.training.ema = api::EmaSpec{.decay = 0.9};
  failed.ranks[0].module->on_validation = [](std::int64_t) { throw std::runtime_error{"the validation fails"}; };
  plain.run();
  failed.run();
  EXPECT_EQ(failed.ranks[0].end.reason, "Threw");
  EXPECT_EQ(failed.ranks[0].checksum, plain.ranks[0].checksum);
}

/// A run that validates after each step, with scores that get worse from the third on.
struct StoppingRun {
  StoppingRun(const fakes::TemporaryFolder& folder, std::int64_t attempt, std::int64_t patience) {
    run.training.max_steps = 50;
    run.training.validate_every = api::Every{.steps = 1, .epochs = {}, .time = {}};
    run.training.early_stopping =
        api::EarlyStoppingSpec{.metric = "score", .mode = api::BestMode::max, .patience = patience};
    run.checkpoint = saved_in(folder);
    run.attempt = attempt;
    rank.module->on_validation = [this, seen = 0](std::int64_t round) mutable {
      if (round == 0) ++seen;
      rank.module->metric_sink()->log("score", torch::scalar_tensor(-std::abs(seen - 2), torch::kDouble), {});
    };
  }
  rank::RankEnd end() {
    run.run();
    return rank.end;
  }

  TrainingRun run{1};
  TrainingRun::Rank& rank = run.ranks[0];
};

TEST(TrainerEarlyStopping, EndsAsCompletedWithAFinalCheckpointAndStaysComplete) {
  const fakes::TemporaryFolder folder;
  StoppingRun first{folder, 1, 2};
  const rank::RankEnd ended = first.end();
  EXPECT_EQ(ended.exit_code, contract::exit_success);
  EXPECT_EQ(ended.reason, "Completed");
  EXPECT_THAT(ended.message,
              HasSubstr("trained 4 steps, stopped early: score was no better than 0 in 2 validations, score -2"));
  EXPECT_EQ(first.rank.link->reports().back().checkpoint->step, 4);
  EXPECT_EQ((StoppingRun{folder, 2, 2}.end().reason), "AlreadyComplete");
  EXPECT_THAT((StoppingRun{folder, 3, 3}.end().message), HasSubstr("trained 5 steps, stopped early"))
      << "a job with more patience trains on";
}

TEST(TrainerEarlyStopping, IsNotSaidOfATrainingThatRanToItsEnd) {
  const fakes::TemporaryFolder folder;
  StoppingRun run{folder, 1, 2};
  run.run.training.max_steps = 4;  // Its last validation also uses up the patience.
  EXPECT_THAT(run.end().message, testing::StartsWith("trained 4 steps, score -2, "));
}

TEST(TrainerEarlyStopping, KnowsTheValidationsOfTheAttemptsBefore) {
  const fakes::TemporaryFolder folder;
  StoppingRun first{folder, 1, 3};
  first.rank.module->on_step = [&first, seen = 0](std::int64_t) mutable {
    if (++seen == 3) first.rank.link->request_stop();
  };
  EXPECT_EQ(first.end().reason, "Preempted");
  // It left the validation after step 3, and the next attempt makes up for it, unless it is asked to stop as well.
  StoppingRun interrupted{folder, 2, 3};
  interrupted.rank.module->on_validation = [&interrupted](std::int64_t) { interrupted.rank.link->request_stop(); };
  EXPECT_EQ(interrupted.end().message, "stopped as asked after step 3, before this attempt's first");
  StoppingRun second{folder, 3, 3};
  EXPECT_THAT(second.end().message, HasSubstr("trained 5 steps, stopped early: score was no better than 0 in 3"));
}

TEST(ChannelsLast, SavesWhatARunWithoutItResumes) {
  const fakes::TemporaryFolder folder;
  const auto run_steps = [&](std::int64_t steps, std::int64_t attempt, bool channels_last) {
    TrainingRun run;
    run.training.max_steps = steps;
    run.training.channels_last = channels_last;
    run.checkpoint = saved_in(folder);
    run.attempt = attempt;
    const torch::Tensor values = torch::arange(96).to(torch::kFloat).reshape({2, 3, 4, 4});
    for (auto& rank : run.ranks)
      rank.module->register_parameter("kernel", attempt == 1 ? values.clone() : torch::zeros_like(values));
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    for (const auto& rank : run.ranks) {
      const torch::Tensor kernel = rank.module->named_parameters()["kernel"].detach();
      EXPECT_TRUE(torch::equal(kernel, values)) << "attempt " << attempt;
      EXPECT_EQ(kernel.is_contiguous(), !channels_last);
    }
  };
  run_steps(2, 1, true);
  run_steps(4, 2, false);
  run_steps(6, 3, true);
}

}  // namespace
}  // namespace trainyard::train
