// Trainings with several optimizers that take turns.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/snapshot/history.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "tests/worker/train/toy_gan.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<torch::Tensor> copies_of(const NamedTensors& tensors) {
  std::vector<torch::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

bool are_close(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return torch::allclose(one, other, 1e-4, 1e-6); });
}

bool are_equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return torch::equal(one, other); });
}

/// A run whose ranks train equal GANs, and what rank 0 saw as each turn began.
struct GanRun {
  explicit GanRun(std::int64_t world_size, std::int64_t max_steps = 4) : run{world_size} {
    run.training.max_steps = max_steps;
    run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.5, .momentum = 0.9};
    for (auto& rank : run.ranks) {
      gans.push_back(make_toy_gan(3));
      rank.other_module = gans.back();
    }
    gans[0]->on_turn = [this](const std::string& name, const Batch& batch) {
      turns.push_back(name);
      parameters.push_back(copies_of(named_parameters(*gans[0])));
      if (name == "discriminator") batches.push_back(batch);
    };
  }
  void end_completed() {
    run.run();
    for (const auto& rank : run.ranks) {
      EXPECT_EQ(rank.end.reason, "Completed") << rank.end.message;
      EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
    }
    parameters.push_back(copies_of(named_parameters(*gans[0])));
  }
  /// Makes the loss of rank `rank` not-a-number in its turn number `turn`, from 1.
  void spoil(std::size_t rank, std::int64_t turn) {
    ToyGan& gan = *gans[rank];
    gan.on_turn = [&gan, turn, seen = std::int64_t{0}](const std::string&, const Batch&) mutable {
      gan.loss_factor = ++seen == turn ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    };
  }

  TrainingRun run;
  std::vector<std::shared_ptr<ToyGan>> gans;
  std::vector<std::string> turns;
  std::vector<std::vector<torch::Tensor>> parameters;  // as each turn began, and at the end
  std::vector<Batch> batches;
};

TEST(OptimizerTurns, ChangeTheParametersAsPlainLibTorchDoes) {
  GanRun trained{1};
  trained.end_completed();
  ASSERT_EQ(trained.batches.size(), 4U);

  const auto gan = make_toy_gan(3);
  const auto parts = gan->named_children();
  torch::nn::Linear generator{std::dynamic_pointer_cast<torch::nn::LinearImpl>(parts["generator"])};
  torch::nn::Linear discriminator{std::dynamic_pointer_cast<torch::nn::LinearImpl>(parts["discriminator"])};
  const auto options = torch::optim::SGDOptions(0.5).momentum(0.9);
  torch::optim::SGD generator_optimizer{generator->parameters(), options};
  torch::optim::SGD discriminator_optimizer{discriminator->parameters(), options};
  std::size_t turn = 0;
  const auto expect_same = [&] {
    EXPECT_TRUE(are_close(trained.parameters[turn], copies_of(named_parameters(*gan)))) << "turn " << turn;
    ++turn;
  };
  expect_same();
  for (const Batch& batch : trained.batches) {
    const torch::Tensor pixels = batch.inputs.flatten(1);
    const torch::Tensor real = pixels.slice(1, 300, 306);
    const torch::Tensor fakes = gan->generate(pixels.slice(1, 400, 408));
    for (torch::Tensor& parameter : gan->parameters()) parameter.mutable_grad().reset();
    (ToyGan::loss_of(discriminator(real), 1.0) + ToyGan::loss_of(discriminator(fakes.detach()), 0.0)).backward();
    discriminator_optimizer.step();
    expect_same();
    for (torch::Tensor& parameter : gan->parameters()) parameter.mutable_grad().reset();
    (ToyGan::loss_of(discriminator(fakes), 1.0) + torch::l1_loss(fakes, real)).backward();
    generator_optimizer.step();
    expect_same();
  }
}

TEST(OptimizerTurns, TrainTwoRanksAsOneWithTheWholeBatch) {
  GanRun two{2}, one{1};
  two.run.training.batch_size = 10;
  one.run.training.batch_size = 20;
  two.end_completed();
  one.end_completed();
  EXPECT_THAT(two.turns, ElementsAre("discriminator", "generator", "discriminator", "generator", "discriminator",
                                     "generator", "discriminator", "generator"));
  ASSERT_EQ(two.parameters.size(), one.parameters.size());
  for (std::size_t turn = 0; turn < one.parameters.size(); ++turn) {
    EXPECT_TRUE(are_close(two.parameters[turn], one.parameters[turn])) << "turn " << turn;
    if (turn == 0) continue;
    EXPECT_FALSE(are_close(two.parameters[turn], two.parameters[turn - 1])) << "turn " << turn;
  }
}

TEST(OptimizerTurns, AddUpTheGradientsOfTheBatchesOfAStep) {
  // The generator sees the discriminator of the step before in all batches but the last: here both are one.
  GanRun added{2}, whole{2};
  for (const auto* run : {&added, &whole})
    for (const auto& gan : run->gans) gan->discriminator_lr = 0.0;
  added.run.training.accumulate_grad_batches = 2;
  added.run.training.batch_size = 5;
  whole.run.training.batch_size = 10;
  added.end_completed();
  whole.end_completed();
  EXPECT_THAT(std::vector(added.turns.begin(), added.turns.begin() + 4),
              ElementsAre("discriminator", "generator", "discriminator", "generator"));
  EXPECT_TRUE(are_close(added.parameters.back(), whole.parameters.back()));
}

TEST(OptimizerTurns, ChangeNothingBeforeTheLastBatchOfAStep) {
  GanRun added{2, 1}, whole{2, 1};
  added.run.training.accumulate_grad_batches = 2;
  added.run.training.batch_size = 5;
  whole.run.training.batch_size = 10;
  added.end_completed();
  whole.end_completed();
  EXPECT_TRUE(are_equal(added.parameters[2], added.parameters[0])) << "as the second batch begins";
  EXPECT_TRUE(are_close(added.parameters[3], whole.parameters[1])) << "once the discriminator has changed";
}

TEST(OptimizerTurns, DropTheGradientsOfOtherOptimizers) {
  GanRun usual{2}, careless{2};
  for (const auto& gan : careless.gans) gan->detaches = gan->freezes = false;
  usual.end_completed();
  careless.end_completed();
  EXPECT_TRUE(are_equal(careless.parameters.back(), usual.parameters.back()));
}

TEST(OptimizerTurns, LeaveAParameterOfNoOptimizerAsRank0HadIt) {
  GanRun trained{2};
  const torch::Tensor of_rank0 = trained.gans[0]->named_parameters()["frozen.weight"];
  const torch::Tensor of_rank1 = trained.gans[1]->named_parameters()["frozen.weight"];
  const torch::Tensor before = of_rank0.detach().clone();
  of_rank1.detach().fill_(7);
  trained.end_completed();
  EXPECT_TRUE(torch::equal(of_rank0.detach(), before));
  EXPECT_TRUE(torch::equal(of_rank1.detach(), before));
  EXPECT_FALSE(of_rank0.requires_grad());
}

TEST(OptimizerTurns, EndTheRankWhereNothingOfTheTurnNeedsAGradient) {
  GanRun trained{1};
  ToyGan& gan = *trained.gans[0];
  gan.detaches = false;
  gan.on_turn = [&gan](const std::string&, const Batch&) {
    for (const torch::Tensor& one : gan.named_children()["discriminator"]->parameters()) one.set_requires_grad(false);
  };
  trained.run.run();
  EXPECT_THAT(trained.run.ranks[0].end.message,
              HasSubstr("no parameter of the optimizer 'discriminator' needs a gradient in its own turn"));
}

TEST(OptimizerTurns, LogTheLossAndTheNormOfEachByItsNameAndTheSumAsTheLoss) {
  SavingRun saving{1, 3};
  TrainingRun& run = saving.run;
  const auto gan = make_toy_gan(3);
  run.ranks[0].other_module = gan;
  run.training.log_every.steps = 1;
  run.training.gradient_clip = {.norm = 1e-3, .value = {}};
  run.open_snapshots = [&saving] { return saving.run.open_store(0); };
  run.training.snapshots.emplace();
  run.training.snapshots->every = {.steps = 100, .epochs = {}, .time = {}};
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
  std::map<std::string, std::vector<double>> values;
  fakes::MemoryStore store{saving.objects};
  const auto shelf = snapshot::list_snapshots(store);
  for (const auto& listed : shelf->snapshots) {
    const auto each = snapshot::read_snapshot(store, listed.id).value();
    for (const auto& point : each.points)
      if (point.over == snapshot::Over::steps) values[point.name].push_back(point.value);
  }
  ASSERT_EQ(values["loss"].size(), 3U);
  for (std::size_t step = 0; step < 3; ++step) {
    EXPECT_NEAR(values["loss"][step], values["discriminator_loss"].at(step) + values["generator_loss"].at(step), 1e-6);
    EXPECT_GT(values["discriminator_grad_norm"].at(step), 0.01);
    EXPECT_GT(values["generator_grad_norm"].at(step), 0.01);
  }
  EXPECT_FALSE(values.contains("grad_norm"));
}

TEST(OptimizerTurns, EndAtALossOfAnyTurnThatIsNotFinite) {
  for (const std::int64_t turn : {3, 4}) {
    GanRun spoilt{2};
    spoilt.run.training.on_non_finite_loss = api::OnNonFiniteLoss::stop;
    spoilt.spoil(1, turn);
    spoilt.run.run();
    for (const auto& rank : spoilt.run.ranks) {
      EXPECT_EQ(rank.end.reason, "NonFiniteLoss");
      EXPECT_THAT(
          rank.end.message,
          HasSubstr(turn == 3 ? "the loss of rank 1 is nan in step 2, in the turn of the optimizer discriminator"
                              : "is nan in step 2, in the turn of the optimizer generator"));
    }
  }
}

TEST(OptimizerTurns, SkipFromTheTurnOfALossThatIsNotFiniteToTheEndOfTheStep) {
  const auto ended = [](std::int64_t steps, std::int64_t spoilt_turn) {
    GanRun run{2, steps};
    for (const auto& gan : run.gans) gan->uses_batch_norm = true;
    run.run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
    run.spoil(1, spoilt_turn);
    run.end_completed();
    std::map<std::string, torch::Tensor> state;
    for (const auto& [name, tensor] : named_parameters(*run.gans[1])) state[name] = tensor.detach();
    for (const auto& [name, tensor] : named_buffers(*run.gans[1])) state[name] = tensor.detach();
    return state;
  };
  const auto first_step = ended(1, 0), second_step = ended(2, 0);
  const auto skipped_whole = ended(2, 3), skipped_generator = ended(2, 4);
  for (const auto& [name, tensor] : first_step) {
    EXPECT_TRUE(torch::equal(skipped_whole.at(name), tensor)) << name;
    const auto& expected = name.starts_with("discriminator") ? second_step : first_step;
    EXPECT_TRUE(torch::equal(skipped_generator.at(name), expected.at(name))) << name;
  }
  EXPECT_FALSE(torch::equal(second_step.at("generator.weight"), first_step.at("generator.weight")));
}

/// Writes down the turns in which it is told of an optimizer, and whose parameters that one trains.
class OptimizerWatch final : public Callback {
 public:
  [[nodiscard]] std::string name() const override { return "watch"; }
  void on_before_optimizer_step(Module& module, const std::string& name, const NamedTensors& parameters) override {
    told.push_back(fmt::format("{} {}", name, module.global_step()));
    for (const auto& [parameter_name, parameter] : parameters) trained[name].insert(parameter_name);
  }

  std::vector<std::string> told;
  std::map<std::string, std::set<std::string>> trained;
};

TEST(OptimizerTurns, AreToldToCallbacksOnceForEachStep) {
  GanRun trained{1, 2};
  trained.run.training.accumulate_grad_batches = 2;
  const auto watch = std::make_shared<OptimizerWatch>();
  trained.gans[0]->callbacks = {watch};
  trained.end_completed();
  EXPECT_THAT(watch->told, ElementsAre("discriminator 0", "generator 0", "discriminator 1", "generator 1"));
  EXPECT_THAT(watch->trained["discriminator"], ElementsAre("discriminator.bias", "discriminator.weight"));
  EXPECT_THAT(watch->trained["generator"],
              ElementsAre("generator.bias", "generator.weight", "norm.bias", "norm.weight"))
      << "and not those of no optimizer";
}

struct TurnsCase {
  std::string what;
  std::function<void(api::TrainingSpec&)> set;
};

const TurnsCase turns_cases[] = {
    {"Adam", [](api::TrainingSpec& training) { training.optimizer = {.lr = 0.01}; }},
    {"Fp16MixedOfTwoClippedBatches",
     [](api::TrainingSpec& training) {
       training.precision = api::Precision::fp16_mixed;
       training.accumulate_grad_batches = 2;
       training.gradient_clip = {.norm = 0.1, .value = {}};
     }},
    {"ScheduleEmaAndSkip",
     [](api::TrainingSpec& training) {
       training.lr_schedule = {.name = api::LrScheduleName::cosine, .warmup_steps = 3};
       training.optimizer.lr_scaling = api::LrScaling::sqrt;
       training.ema = api::EmaSpec{.decay = 0.5};
       training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
     }},
};

class TurnsPolicy : public testing::TestWithParam<TurnsCase> {};

TEST_P(TurnsPolicy, ResumesToTheBit) {
  const auto run_until = [&](std::int64_t stop, std::int64_t attempt, const fakes::TemporaryFolder* folder) {
    GanRun run{2, 6};
    for (const auto& gan : run.gans) gan->uses_batch_norm = true;
    GetParam().set(run.run.training);
    run.run.attempt = attempt;
    if (folder != nullptr) run.run.checkpoint.emplace().uri = folder->uri() + "/checkpoints";
    run.gans[1]->on_turn = [&, seen = std::int64_t{0}](const std::string& name, const Batch&) mutable {
      if (name == "generator" && ++seen == stop) run.run.ranks[1].link->request_stop();
    };
    run.run.run();
    EXPECT_EQ(run.run.ranks[0].end.reason, stop > 0 ? "Preempted" : "Completed") << run.run.ranks[0].end.message;
    EXPECT_EQ(run.run.ranks[0].checksum, run.run.ranks[1].checksum);
    return run.run.ranks[0].checksum;
  };
  const auto whole = run_until(0, 1, nullptr);
  const fakes::TemporaryFolder folder;
  EXPECT_NE(run_until(3, 1, &folder), whole);
  EXPECT_EQ(run_until(0, 2, &folder), whole);
}

INSTANTIATE_TEST_SUITE_P(Table, TurnsPolicy, testing::ValuesIn(turns_cases),
                         [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace trainyard::train
