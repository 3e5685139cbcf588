// Trainings in 16 bits, and losses that cannot be trained with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

TEST(TrainerPrecision, KeepsAScaleThatFellAcrossARestart) {
  struct End {
    std::uint64_t checksum = 0;
    torch::Tensor weight;
  };
  const auto run_until = [](std::int64_t stop, std::int64_t attempt, const fakes::TemporaryFolder* folder) {
    TrainingRun run;
    run.training.max_steps = 14;
    run.training.precision = api::Precision::fp16_mixed;
    run.attempt = attempt;
    if (folder != nullptr) {
      run.checkpoint.emplace();
      run.checkpoint->uri = folder->uri() + "/checkpoints";
    }
    // Gradients of so large a loss overflow until the scale has been halved several times.
    for (auto& rank : run.ranks) rank.module->loss_factor = 100.0;
    run.ranks[1].module->on_step = [&run, stop, seen = std::int64_t{0}](std::int64_t) mutable {
      if (++seen == stop) run.ranks[1].link->request_stop();
    };
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, stop > 0 ? "Preempted" : "Completed") << run.ranks[0].end.message;
    EXPECT_EQ(run.ranks[0].checksum, run.ranks[1].checksum);
    return End{run.ranks[0].checksum, run.ranks[0].module->parameters()[2].detach()};
  };
  const torch::Tensor initial = TrainingRun{}.ranks[0].module->parameters()[2].detach();
  const End whole = run_until(0, 1, nullptr);
  EXPECT_FALSE(torch::equal(whole.weight, initial)) << "the scale has fallen far enough to train";
  const fakes::TemporaryFolder folder;
  EXPECT_TRUE(torch::equal(run_until(3, 1, &folder).weight, initial)) << "the first steps are all skipped";
  EXPECT_EQ(run_until(0, 2, &folder).checksum, whole.checksum);
}

TEST(TrainerPrecision, SkipsALossThatIsNotFiniteThoughItsGradientsAre) {
  for (const bool is_mixed : {false, true}) {
    const auto run_steps = [&](std::int64_t steps) {
      TrainingRun run;
      run.training.max_steps = steps;
      if (is_mixed) run.training.precision = api::Precision::fp16_mixed;
      run.training.on_non_finite_loss = api::OnNonFiniteLoss::skip;
      SmallModule& module = *run.ranks[1].module;
      module.on_step = [&module, seen = 0](std::int64_t) mutable {
        module.loss_offset = ++seen == 2 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
      };
      run.run();
      EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
      return run.ranks[0].checksum;
    };
    EXPECT_EQ(run_steps(2), run_steps(1)) << (is_mixed ? "16-mixed" : "32");
    EXPECT_NE(run_steps(3), run_steps(1)) << (is_mixed ? "16-mixed" : "32");
  }
}

TEST(TrainerLoss, HasToBeAScalar) {
  class OfSeveralNumbers final : public Module {
   public:
    explicit OfSeveralNumbers(std::int64_t numbers) : numbers_{numbers} { register_parameter("weight", weight_); }
    [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override {
      return numbers_ == 0 ? StepOutput{} : StepOutput{weight_.expand({numbers_})};
    }

   private:
    std::int64_t numbers_;
    torch::Tensor weight_ = torch::ones({1});
  };
  for (const auto& [numbers, is_loss] : {std::pair{0, false}, std::pair{1, true}, std::pair{2, false}}) {
    TrainingRun run{1};
    run.training.max_steps = 1;
    run.ranks[0].other_module = std::make_shared<OfSeveralNumbers>(numbers);
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, is_loss ? "Completed" : "Threw") << numbers;
    if (!is_loss) {
      EXPECT_THAT(run.ranks[0].end.message, HasSubstr("the training step gave no scalar loss"));
    }
  }
}

}  // namespace
}  // namespace trainyard::train
