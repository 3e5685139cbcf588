#include "worker/train/program_call.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

void fail_in_a_step() {
  const ProgramCall step{" in step ", 7};
  const ProgramCall call{"training_step()"};
  throw std::runtime_error{"a bug"};
}

TEST(ProgramCall, IsNamedFromTheInsideOutOnceAnExceptionHasLeftIt) {
  EXPECT_THROW(fail_in_a_step(), std::runtime_error);
  EXPECT_EQ(failed_call(), "training_step() in step 7");
}

TEST(ProgramCall, LeavesOutInnerCallsThatEndedWell) {
  const auto fail_after_a_call = [] {
    const ProgramCall step{" in step ", 7};
    { const ProgramCall call{"training_step()"}; }
    const ProgramCall call{"step() of the optimizer ", "generator"};
    throw std::runtime_error{"a bug"};
  };
  EXPECT_THROW(fail_after_a_call(), std::runtime_error);
  EXPECT_EQ(failed_call(), "step() of the optimizer generator in step 7");
  const auto fail_between_calls = [] {
    const ProgramCall step{" in step ", 8};
    { const ProgramCall call{"training_step()"}; }
    throw std::runtime_error{"a bug"};
  };
  EXPECT_THROW(fail_between_calls(), std::runtime_error);
  EXPECT_EQ(failed_call(), "in step 8");
}

TEST(ProgramCall, IsForgottenWhenAnotherBegins) {
  EXPECT_THROW(fail_in_a_step(), std::runtime_error);
  { const ProgramCall call{"open_datasets()"}; }
  EXPECT_EQ(failed_call(), "");
}

TEST(ProgramCall, IsForgottenWhenTheCallAroundItHandlesTheException) {
  {
    const ProgramCall around{" of the optimizer"};
    EXPECT_THROW(fail_in_a_step(), std::runtime_error);
  }
  EXPECT_EQ(failed_call(), "");
}

TEST(ProgramCall, IsNotNamedWhenItEndsWellWhileAnExceptionIsOnItsWay) {
  struct CallsAtTheEnd {
    ~CallsAtTheEnd() { const ProgramCall call{"the end"}; }
  };
  const auto fail_around_it = [] {
    const ProgramCall step{" in step ", 7};
    const CallsAtTheEnd end;
    throw std::runtime_error{"a bug"};
  };
  EXPECT_THROW(fail_around_it(), std::runtime_error);
  EXPECT_EQ(failed_call(), "in step 7");
}

TEST(ProgramCall, IsOfItsThread) {
  EXPECT_THROW(fail_in_a_step(), std::runtime_error);
  std::string of_other = "nothing yet";
  std::jthread{[&] { of_other = failed_call(); }}.join();
  EXPECT_EQ(of_other, "");
  EXPECT_EQ(failed_call(), "training_step() in step 7");
}

[[noreturn]] void fail() {
  throw std::runtime_error{"a bug"};
}

class FailingCallback final : public Callback {
 public:
  explicit FailingCallback(std::string function) : function_{std::move(function)} {}
  [[nodiscard]] std::string name() const override { return "best"; }
  void on_train_start(Module& /*module*/) override { fail_in("on_train_start"); }
  void on_step_end(Module& module, const torch::Tensor& /*loss*/) override {
    if (module.global_step() == 2) fail_in("on_step_end");
  }
  void on_epoch_end(Module& /*module*/) override { fail_in("on_epoch_end"); }
  void on_validation_end(Module& /*module*/, const std::map<std::string, double>& /*metrics*/) override {
    fail_in("on_validation_end");
  }
  void on_train_end(Module& /*module*/) override { fail_in("on_train_end"); }

 private:
  void fail_in(const std::string& function) const {
    if (function == function_) fail();
  }
  std::string function_;
};

/// Fails to give the sample 15.
class FailingDataset final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 30; }
  [[nodiscard]] std::string id() const override { return "failing"; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    if (ids.eq(15).any().item<bool>()) fail();
    return small_.gather(ids);
  }

 private:
  data::ImageDataset small_ = make_small_dataset(30, 0);
};

/// Has labels beyond the one class that it says it has.
class MislabelledDataset final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 30; }
  [[nodiscard]] std::string id() const override { return "mislabelled"; }
  [[nodiscard]] std::int64_t classes() const override { return 1; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override { return small_.gather(ids); }

 private:
  data::ImageDataset small_ = make_small_dataset(30, 0);
};

class FailingOptimizer final : public Optimizer {
 public:
  void step() override { fail(); }
  [[nodiscard]] NamedTensors state() override { return {}; }
};

/// The failed call of a training of three steps, one epoch, after `change` was applied to it.
std::string call_that_failed(const std::function<void(TrainingRun&)>& change) {
  TrainingRun run{1};
  run.training_samples = 30;
  run.training.epochs = 1;
  change(run);
  run.run();
  EXPECT_EQ(run.ranks[0].end.reason, "Threw") << run.ranks[0].end.message;
  return run.ranks[0].failed_call;
}

TEST(ProgramCall, NamesEachFunctionOfTheProgramThatATrainingCalls) {
  const auto callback = [](const std::string& function) {
    return call_that_failed(
        [&](TrainingRun& run) { run.ranks[0].module->callbacks = {std::make_shared<FailingCallback>(function)}; });
  };
  EXPECT_EQ(callback("on_train_start"), "on_train_start() of the callback best after step 0");
  EXPECT_EQ(callback("on_step_end"), "on_step_end() of the callback best after step 2");
  EXPECT_EQ(callback("on_epoch_end"), "on_epoch_end() of the callback best after step 3");
  EXPECT_EQ(callback("on_validation_end"), "on_validation_end() of the callback best after step 3");
  EXPECT_EQ(callback("on_train_end"), "on_train_end() of the callback best after step 3");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) {
              run.ranks[0].module->on_step = [](std::int64_t batch) {
                if (batch == 1) fail();
              };
            }),
            "training_step() in step 2");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) {
              run.ranks[0].module->on_validation = [](std::int64_t batch) {
                if (batch == 3) fail();
              };
            }),
            "validation_step() in batch 4 of the validation after step 3");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) {
              run.ranks[0].module->parameters()[2].register_hook(
                  [](const torch::Tensor& gradient) -> torch::Tensor { return (fail(), gradient); });
            }),
            "backward() of the loss in step 1");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) {
              run.ranks[0].module->own_optimizer = [](SmallModule&) { return std::make_unique<FailingOptimizer>(); };
            }),
            "the optimizer's step() in step 1");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) {
              static const FailingDataset data;
              run.training_data = &data;
            }),
            "reading a batch in step 3");
}

TEST(ProgramCall, IsReadingABatchWhereALabelIsNoClassOfTheDataSet) {
  static const MislabelledDataset data;
  EXPECT_EQ(call_that_failed([](TrainingRun& run) { run.training_data = &data; }), "reading a batch in step 1");
  EXPECT_EQ(call_that_failed([](TrainingRun& run) { run.validation_data = &data; }),
            "reading a batch in batch 1 of the validation after step 3");
}

}  // namespace
}  // namespace trainyard::train
