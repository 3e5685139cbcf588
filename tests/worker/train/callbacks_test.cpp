#include "worker/train/callbacks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/train/saving_run.hpp"

namespace trainyard::train {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Writes down what it is told, and counts the steps in a tensor that checkpoints keep.
class Recorder final : public Callback {
 public:
  explicit Recorder(std::string name = "recorder") : name_{std::move(name)} {}
  [[nodiscard]] std::string name() const override { return name_; }
  void on_train_start(Module& module) override {
    rates.push_back(module.learning_rate());
    tell(module, "start");
  }
  void on_step_end(Module& module, const torch::Tensor& loss) override {
    EXPECT_EQ(loss.dim(), 0);
    EXPECT_FALSE(loss.requires_grad());
    losses.push_back(loss.item<double>());
    steps += 1;
    rates.push_back(module.learning_rate());
    if (module.global_step() == stop_after_step) stop_training();
    if (module.global_step() == throw_after_step) throw std::runtime_error{"the callback cannot go on"};
    tell(module, "step");
  }
  void on_epoch_end(Module& module) override { tell(module, "epoch"); }
  void on_validation_end(Module& module, const std::map<std::string, double>& metrics) override {
    EXPECT_EQ(metrics.count("val_loss"), 1U);
    tell(module, "validation");
  }
  void on_train_end(Module& module) override { tell(module, "end"); }
  void on_exception(Module& module, const std::exception_ptr& thrown) override {
    EXPECT_NE(thrown, nullptr);
    tell(module, "exception");
    if (fails_in_on_exception) throw std::runtime_error{"and this fails too"};
  }
  [[nodiscard]] NamedTensors state() override { return {{"steps", steps}}; }
  void before_save() override { ++saves; }
  void after_restore() override {
    ++restores;
    if (fails_in_after_restore) throw std::runtime_error{"the state is of no use"};
  }

  std::vector<std::string> told;
  std::vector<double> losses;
  std::vector<double> rates;  // at the start and after each step
  torch::Tensor steps = torch::zeros({}, torch::kLong);
  int saves = 0;
  int restores = 0;
  std::int64_t stop_after_step = -1;
  std::int64_t throw_after_step = -1;
  bool fails_in_on_exception = false;
  bool fails_in_after_restore = false;

 private:
  void tell(const Module& module, const std::string& what) {
    told.push_back(fmt::format("{} {}/{}", what, module.global_step(), module.current_epoch()));
  }

  std::string name_;
};

/// A recorder on each rank of `run`.
std::vector<std::shared_ptr<Recorder>> record_all(TrainingRun& run) {
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (auto& rank : run.ranks) {
    recorders.push_back(std::make_shared<Recorder>());
    rank.module->callbacks = {recorders.back()};
  }
  return recorders;
}

TEST(Callbacks, AreToldOfEachPartOfATrainingInOrderOnEveryRank) {
  TrainingRun run;
  run.training.epochs = 2;
  run.training.batch_size = 25;  // Two steps an epoch.
  const auto recorders = record_all(run);
  run.run();
  for (const auto& recorder : recorders) {
    EXPECT_THAT(recorder->told, ElementsAre("start 0/0", "step 1/0", "step 2/0", "epoch 2/0", "validation 2/0",
                                            "step 3/1", "step 4/1", "epoch 4/1", "validation 4/1", "end 4/1"));
  }
}

TEST(Callbacks, GetTheMeanLossOfAStepsBatches) {
  TrainingRun run{1};
  run.training.max_steps = 1;
  const auto of_one = record_all(run);
  run.run();
  TrainingRun split{1};
  split.training.max_steps = 1;
  split.training.batch_size = 5;
  split.training.accumulate_grad_batches = 2;
  for (auto& rank : split.ranks) rank.module->set_uses_batch_norm(false);
  const auto of_two = record_all(split);
  split.run();
  TrainingRun whole{1};
  whole.training.max_steps = 1;
  for (auto& rank : whole.ranks) rank.module->set_uses_batch_norm(false);
  const auto of_whole = record_all(whole);
  whole.run();
  EXPECT_DOUBLE_EQ(of_one[0]->losses.at(0), *run.ranks[0].link->reports().back().loss);
  EXPECT_NEAR(of_two[0]->losses.at(0), of_whole[0]->losses.at(0), 1e-5);
}

TEST(Callbacks, KnowTheLearningRateOfTheStepThatIsDone) {
  TrainingRun constant{1};
  constant.training.max_steps = 2;
  constant.training.optimizer.lr = 0.5;
  const auto of_constant = record_all(constant);
  constant.run();
  EXPECT_THAT(of_constant[0]->rates, ElementsAre(0.5, 0.5, 0.5));

  TrainingRun warming{1};
  warming.training.max_steps = 3;
  warming.training.optimizer.lr = 0.5;
  warming.training.lr_schedule.warmup_steps = 4;
  const auto of_warming = record_all(warming);
  warming.run();
  EXPECT_THAT(of_warming[0]->rates, ElementsAre(0.125, 0.125, 0.25, 0.375));
}

TEST(Callbacks, EndTheTrainingOfAllRanksWhenOneAsks) {
  SavingRun saving{2, 10};
  auto recorders = record_all(saving.run);
  recorders[1]->stop_after_step = 3;
  saving.run.run();
  EXPECT_EQ(recorders[0]->told.back(), "end 4/0");
  EXPECT_EQ(recorders[1]->told.back(), "end 4/0");
  for (const auto& rank : saving.run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed");
    EXPECT_THAT(rank.end.message, HasSubstr("trained 4 steps"));
  }
  EXPECT_THAT(saving.run.ranks[0].end.message, HasSubstr("ended as a callback of another rank asked"));
  EXPECT_THAT(saving.run.ranks[1].end.message, HasSubstr("ended as the callback recorder asked"));

  saving.run.attempt = 2;
  recorders = record_all(saving.run);
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end.reason, "AlreadyComplete") << saving.run.ranks[0].end.message;
  EXPECT_THAT(recorders[0]->told, ElementsAre());
}

TEST(Callbacks, HaveEndedTheTrainingAlsoWhereAStopInterruptsItsLastValidation) {
  SavingRun saving{2, 10};
  auto recorders = record_all(saving.run);
  recorders[0]->stop_after_step = 3;
  auto& stopped = saving.run.ranks[0];
  stopped.module->on_validation = [&stopped](std::int64_t) { stopped.link->request_stop(); };
  saving.run.run();
  ASSERT_EQ(stopped.end.reason, "Preempted") << stopped.end.message;

  saving.run.attempt = 2;
  stopped.module->on_validation = nullptr;
  stopped.link = std::make_unique<fakes::FakeRankLink>();
  recorders = record_all(saving.run);
  saving.run.run();
  for (const auto& rank : saving.run.ranks) {
    EXPECT_EQ(rank.end.reason, "Completed");
    EXPECT_THAT(rank.end.message, HasSubstr("trained 4 steps, ended as a callback asked before the restart"));
  }
}

TEST(Callbacks, AreToldOfAValidationThatAStopInterruptedBeforeTheNextStep) {
  SavingRun saving{2, 4};
  saving.run.training.validate_every = api::Every{.steps = 2};
  auto recorders = record_all(saving.run);
  auto& stopped = saving.run.ranks[0];
  stopped.module->on_validation = [&stopped](std::int64_t) { stopped.link->request_stop(); };
  saving.run.run();
  ASSERT_EQ(stopped.end.reason, "Preempted") << stopped.end.message;
  EXPECT_EQ(recorders[0]->told.back(), "step 2/0");

  saving.run.attempt = 2;
  stopped.module->on_validation = nullptr;
  stopped.link = std::make_unique<fakes::FakeRankLink>();
  recorders = record_all(saving.run);
  saving.run.run();
  ASSERT_EQ(stopped.end.reason, "Completed") << stopped.end.message;
  for (const auto& recorder : recorders)
    EXPECT_THAT(recorder->told,
                ElementsAre("start 2/0", "validation 2/0", "step 3/0", "step 4/0", "validation 4/0", "end 4/0"));
}

TEST(Callbacks, HaveTheirStateOfRankZeroBackWhenTheTrainingResumes) {
  SavingRun saving{2, 4};
  auto recorders = record_all(saving.run);
  recorders[0]->steps += 100;
  saving.run.run();
  ASSERT_EQ(saving.run.ranks[0].end.reason, "Completed") << saving.run.ranks[0].end.message;
  EXPECT_GT(recorders[0]->saves, 0);
  EXPECT_EQ(recorders[0]->restores, 0);

  saving.run.attempt = 2;
  saving.run.training.max_steps = 6;
  recorders = record_all(saving.run);
  saving.run.run();
  ASSERT_EQ(saving.run.ranks[0].end.reason, "Completed") << saving.run.ranks[0].end.message;
  for (const auto& recorder : recorders) {
    EXPECT_EQ(recorder->restores, 1);
    EXPECT_EQ(recorder->steps.item<std::int64_t>(), 106);
    EXPECT_EQ(recorder->told.front(), "start 4/0");
  }
}

TEST(Callbacks, AreNamedWithTheStepThatIsRestoredWhenTheyRefuseIt) {
  SavingRun saving{1, 4};
  (void)record_all(saving.run);
  saving.run.run();
  saving.run.attempt = 2;
  saving.run.training.max_steps = 6;
  record_all(saving.run)[0]->fails_in_after_restore = true;
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end.message, "the state is of no use");
  EXPECT_EQ(saving.run.ranks[0].failed_call, "after_restore() of the callback recorder after step 4");
}

TEST(Callbacks, AreToldOfAnExceptionWhichEndsTheRankAsTheModulesDo) {
  TrainingRun run{1};
  run.training.max_steps = 4;
  const auto recorders = record_all(run);
  recorders[0]->fails_in_on_exception = true;
  run.ranks[0].module->on_step = [seen = 0](std::int64_t) mutable {
    if (++seen == 2) throw std::runtime_error{"the module cannot go on"};
  };
  run.run();
  EXPECT_EQ(run.ranks[0].end.message, "the module cannot go on");
  EXPECT_THAT(recorders[0]->told, ElementsAre("start 0/0", "step 1/0", "exception 1/0"));
}

/// Writes down each optimizer's turn, and changes the gradients if told to.
class GradientWatch final : public Callback {
 public:
  [[nodiscard]] std::string name() const override { return "watch"; }
  void on_before_optimizer_step(Module& module, const std::string& name, const NamedTensors& parameters) override {
    counts.push_back(parameters.size());
    told.push_back(fmt::format("{}{}", name, module.global_step()));
    const torch::NoGradGuard no_grad;
    torch::Tensor squares = torch::zeros({});
    for (const auto& [parameter_name, parameter] : parameters) {
      if (!parameter.grad().defined()) continue;
      squares += parameter.grad().square().sum();
      if (clears) parameter.grad().zero_();
    }
    norms.push_back(squares.sqrt().item<double>());
    module.log("norm_before", norms.back());
    if (fails) throw std::runtime_error{"the gradients cannot be used"};
  }

  std::vector<std::string> told;
  std::vector<std::size_t> counts;  // of the parameters
  std::vector<double> norms;
  bool clears = false;
  bool fails = false;
};

std::vector<std::shared_ptr<GradientWatch>> watch_all(TrainingRun& run) {
  std::vector<std::shared_ptr<GradientWatch>> watches;
  for (auto& rank : run.ranks) {
    watches.push_back(std::make_shared<GradientWatch>());
    rank.module->callbacks = {watches.back()};
  }
  return watches;
}

TEST(Callbacks, SeeTheGradientsOfAllRanksBeforeTheyAreClipped) {
  TrainingRun run{2};
  run.training.max_steps = 2;
  run.training.gradient_clip = api::GradientClipSpec{.norm = 1e-3};
  const auto watches = watch_all(run);
  run.run();
  for (const auto& watch : watches) {
    EXPECT_THAT(watch->told, ElementsAre("0", "1"));
    EXPECT_THAT(watch->counts, Each(7U)) << "all that need a gradient";
    EXPECT_THAT(watch->norms, Each(testing::Gt(0.01)));
  }
  EXPECT_EQ(watches[0]->norms, watches[1]->norms);
}

TEST(Callbacks, MayChangeTheGradientsThatTheOptimizerTakes) {
  TrainingRun run{1};
  run.training.max_steps = 2;
  run.training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.5};
  watch_all(run)[0]->clears = true;
  const torch::Tensor before = run.ranks[0].module->parameters()[2].detach().clone();
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Completed");
  EXPECT_TRUE(torch::equal(run.ranks[0].module->parameters()[2], before));
}

TEST(Callbacks, AreNamedWithTheStepWhoseGradientsTheyRefuse) {
  TrainingRun run{1};
  run.training.max_steps = 2;
  watch_all(run)[0]->fails = true;
  run.run();
  EXPECT_EQ(run.ranks[0].end.message, "the gradients cannot be used");
  EXPECT_EQ(run.ranks[0].failed_call, "on_before_optimizer_step() of the callback watch in step 1");
}

TEST(Callbacks, EndTheRankByTheirOwnExceptions) {
  TrainingRun run{1};
  run.training.max_steps = 4;
  const auto recorders = record_all(run);
  recorders[0]->throw_after_step = 2;
  run.run();
  EXPECT_EQ(run.ranks[0].end.message, "the callback cannot go on");
  EXPECT_EQ(recorders[0]->told.back(), "exception 2/0");
}

TEST(Callbacks, AreRefusedWithoutANameOfTheirOwn) {
  const auto error_of = [](const std::vector<std::shared_ptr<Callback>>& callbacks) -> std::string {
    const auto module = make_small_module(3);
    module->callbacks = callbacks;
    try {
      Callbacks{*module};
    } catch (const InvalidJob& error) {
      return error.what();
    }
    return "";
  };
  const auto one = std::make_shared<Recorder>("one");
  EXPECT_EQ(error_of({one, std::make_shared<Recorder>("two")}), "");
  EXPECT_THAT(error_of({one, std::make_shared<Recorder>("one")}), HasSubstr("second callback of the name 'one'"));
  EXPECT_THAT(error_of({std::make_shared<Recorder>("")}), HasSubstr("without a name"));
  EXPECT_THAT(error_of({nullptr}), HasSubstr("nullptr"));
}

TEST(Callbacks, AreRefusedWithStateThatIsUndefined) {
  const auto module = make_small_module(3);
  const auto recorder = std::make_shared<Recorder>();
  recorder->steps = torch::Tensor{};
  module->callbacks = {recorder};
  Callbacks callbacks{*module};
  EXPECT_THROW((void)callbacks.entries(), InvalidJob);
}

TEST(Callbacks, AreRefusedWithTwoStatesOfOneName) {
  class Twice final : public Callback {
   public:
    [[nodiscard]] std::string name() const override { return "twice"; }
    [[nodiscard]] NamedTensors state() override { return {{"steps", torch::zeros({})}, {"steps", torch::ones({})}}; }
  };
  const auto module = make_small_module(3);
  module->callbacks = {std::make_shared<Twice>()};
  Callbacks callbacks{*module};
  EXPECT_THROW((void)callbacks.entries(), InvalidJob);
}

TEST(Callbacks, AreAllToldOfAnExceptionWhateverOneOfThemThrowsThen) {
  class Throwing final : public Callback {
   public:
    [[nodiscard]] std::string name() const override { return "throwing"; }
    void on_exception(Module& /*module*/, const std::exception_ptr& /*thrown*/) override { throw 5; }
  };
  TrainingRun run{1};
  run.training.max_steps = 4;
  const auto first = std::make_shared<Recorder>("first"), last = std::make_shared<Recorder>("last");
  first->fails_in_on_exception = true;
  run.ranks[0].module->callbacks = {first, std::make_shared<Throwing>(), last};
  run.ranks[0].module->on_step = [](std::int64_t) { throw std::runtime_error{"the module cannot go on"}; };
  run.run();
  EXPECT_EQ(run.ranks[0].end.message, "the module cannot go on");
  EXPECT_EQ(last->told.back(), "exception 0/0");
}

TEST(Callbacks, HaveStatesOfEqualNamesBesideEachOther) {
  const auto module = make_small_module(3);
  const auto one = std::make_shared<Recorder>("one"), two = std::make_shared<Recorder>("two");
  module->callbacks = {one, two};
  Callbacks callbacks{*module};
  const auto entries = callbacks.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "callback.one.steps");
  EXPECT_EQ(entries[1].name, "callback.two.steps");
  EXPECT_TRUE(entries[1].tensor.is_alias_of(two->steps));
  for (const auto& entry : entries) EXPECT_EQ(entry.placement, checkpoint::Placement::rank0);
}

}  // namespace
}  // namespace trainyard::train
