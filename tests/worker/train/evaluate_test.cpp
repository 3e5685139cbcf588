#include "worker/train/evaluate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/small_module.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;

const EvaluationRounds to_the_end{.begin = [] {}, .finish = [] { return Result<bool>{true}; }};

TEST(Evaluate, GivesTheMeanOverAllSamplesHoweverManyRanksShareThem) {
  const data::ImageDataset dataset = make_small_dataset(33, 1);
  const auto alone = make_small_module(3);
  checkpoint::SingleCommunicator single;
  const auto expected = evaluate(*alone, dataset, {.batch_size = 33}, single, to_the_end);
  ASSERT_TRUE(expected && *expected);
  EXPECT_EQ((*expected)->size(), 2U);

  for (const std::int64_t world_size : {2, 4}) {
    std::vector<std::shared_ptr<SmallModule>> modules;
    for (std::int64_t rank = 0; rank < world_size; ++rank) modules.push_back(make_small_module(3));
    fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
      const auto values = evaluate(*modules[static_cast<std::size_t>(rank.rank)], dataset, {.batch_size = 5},
                                   *rank.communicator, to_the_end);
      ASSERT_TRUE(values && *values);
      EXPECT_DOUBLE_EQ((*values)->at("val_accuracy"), (*expected)->at("val_accuracy")) << world_size << " ranks";
      EXPECT_NEAR((*values)->at("val_loss"), (*expected)->at("val_loss"), 1e-6) << world_size << " ranks";
    });
  }
}

TEST(Evaluate, LeavesTheModuleAndTheRandomGeneratorAsTheyWere) {
  const data::ImageDataset dataset = make_small_dataset(7, 1);
  const auto module = make_small_module(3, 0.5);
  module->train();
  const torch::Tensor mean = module->named_buffers()["norm.running_mean"].clone();
  const torch::Tensor state = at::globalContext().defaultGenerator(torch::kCPU).get_state().clone();
  checkpoint::SingleCommunicator single;
  ASSERT_TRUE(evaluate(*module, dataset, {.batch_size = 2}, single, to_the_end).has_value());
  EXPECT_TRUE(module->is_training());
  EXPECT_TRUE(torch::equal(module->named_buffers()["norm.running_mean"], mean));
  EXPECT_TRUE(torch::equal(at::globalContext().defaultGenerator(torch::kCPU).get_state(), state));
}

TEST(Evaluate, LeavesAPartOfTheModuleInEvaluationModeThatWasInIt) {
  const data::ImageDataset dataset = make_small_dataset(7, 1);
  const auto module = make_small_module(3, 0.5);
  module->named_children()["norm"]->eval();
  checkpoint::SingleCommunicator single;
  ASSERT_TRUE(evaluate(*module, dataset, {.batch_size = 2}, single, to_the_end).has_value());
  EXPECT_FALSE(module->named_children()["norm"]->is_training());
  EXPECT_TRUE(module->named_children()["drop"]->is_training());
  EXPECT_TRUE(module->is_training());
}

TEST(Evaluate, WorksWithMoreRanksThanSamples) {
  const data::ImageDataset dataset = make_small_dataset(1, 1);
  std::vector<std::shared_ptr<SmallModule>> modules{make_small_module(3), make_small_module(3)};
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    const auto values = evaluate(*modules[static_cast<std::size_t>(rank.rank)], dataset, {.batch_size = 5},
                                 *rank.communicator, to_the_end);
    ASSERT_TRUE(values && *values);
    EXPECT_EQ((*values)->count("val_accuracy"), 1U);
  });
}

TEST(Evaluate, HasAsManyRoundsOnEveryRankAndEndsAfterTheOneThatSaysSo) {
  const data::ImageDataset dataset =
      make_small_dataset(9, 1);  // Two ranks, two a batch: the last round is rank 0's alone.
  std::vector<std::shared_ptr<SmallModule>> modules{make_small_module(3), make_small_module(3)};
  for (const int rounds_wanted : {3, 2}) {
    std::vector<int> begun(2);
    fakes::run_ranks(2, [&](fakes::RankThread& rank) {
      const auto index = static_cast<std::size_t>(rank.rank);
      const EvaluationRounds rounds{
          .begin = [&] { ++begun[index]; },
          .finish = [&]() -> Result<bool> { return begun[index] < rounds_wanted || rounds_wanted == 3; }};
      const auto values = evaluate(*modules[index], dataset, {.batch_size = 2}, *rank.communicator, rounds);
      ASSERT_TRUE(values.has_value());
      EXPECT_EQ(values->has_value(), rounds_wanted == 3);
      EXPECT_TRUE(modules[index]->is_training());
    });
    EXPECT_THAT(begun, ElementsAre(rounds_wanted, rounds_wanted));
  }
}

TEST(Evaluate, EndsWithTheErrorThatIsSeenBeforeValuesAreRead) {
  const data::ImageDataset dataset = make_small_dataset(9, 1);
  const auto module = make_small_module(3);
  checkpoint::SingleCommunicator single;
  EvaluationRounds rounds = to_the_end;
  rounds.before_reading = []() -> Result<void> { return fail(ErrorKind::unavailable, "gone"); };
  const auto values = evaluate(*module, dataset, {.batch_size = 2, .loader_threads = 2}, single, rounds);
  EXPECT_EQ(values.error().message, "gone");
}

TEST(Evaluate, EndsWithTheErrorOfARound) {
  const data::ImageDataset dataset = make_small_dataset(9, 1);
  const auto module = make_small_module(3);
  checkpoint::SingleCommunicator single;
  const EvaluationRounds rounds{.begin = [] {},
                                .finish = []() -> Result<bool> { return fail(ErrorKind::unavailable, "gone"); }};
  EXPECT_EQ(evaluate(*module, dataset, {.batch_size = 2}, single, rounds).error().message, "gone");
}

}  // namespace
}  // namespace trainyard::train
