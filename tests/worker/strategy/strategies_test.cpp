#include "worker/strategy/strategies.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <tuple>
#include <utility>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/mean_hook.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/group.hpp"

namespace trainyard::strategy {
namespace {

dist::Group group_of(fakes::RankThread& rank) {
  return {.rank = rank.rank,
          .world_size = rank.world_size,
          .store = {},
          .process_group = rank.process_group,
          .communicator = std::move(rank.communicator),
          .checkpoint_communicator = {}};
}

constexpr api::StrategySpec single{.name = api::StrategyName::single};

TEST(MakeGradientSync, OneRankAloneKeepsItsGradients) {
  fakes::run_ranks(1, [](fakes::RankThread& rank) {
    auto group = group_of(rank);
    const auto weight = torch::ones({3}, torch::requires_grad());
    const auto sync = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, single, nullptr);
    sync->begin_backward(true);
    (2 * weight).sum().backward();
    ASSERT_TRUE(sync->finish_gradients());
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({3}, 2.0)));
    EXPECT_EQ(sync->exchanged_bytes(), 0U);
    sync->zero_gradients();
    EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(MakeGradientSync, RefusesStrategiesOfOneRankWhereSeveralWereStarted) {
  for (const auto& [spec, name] :
       {std::pair{single, "single"}, {api::StrategySpec{.name = api::StrategyName::dp}, "dp"}}) {
    fakes::run_ranks(2, [&, spec = spec, name = name](fakes::RankThread& rank) {
      auto group = group_of(rank);
      const auto weight = torch::ones({3}, torch::requires_grad());
      try {
        std::ignore = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, spec, nullptr);
        ADD_FAILURE() << "two ranks were taken";
      } catch (const InvalidJob& error) {
        EXPECT_THAT(error.what(),
                    testing::StartsWith(fmt::format(
                        "training.strategy.name: is {}, which is one rank, but 2 ranks were started", name)));
      }
    });
  }
}

TEST(MakeGradientSync, RefusesAModelsCommunicationHookWhereTheJobAsksForAnotherExchange) {
  const api::StrategySpec specs[] = {
      {.name = api::StrategyName::horovod},
      {.name = api::StrategyName::bagua},
      {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized},
      {.name = api::StrategyName::sharded},
      {.gradient_compression = api::GradientCompression::fp16},
  };
  for (const api::StrategySpec& spec : specs) {
    fakes::run_ranks(2, [&](fakes::RankThread& rank) {
      auto group = group_of(rank);
      const auto weight = torch::ones({3}, torch::requires_grad());
      const auto hook = std::make_shared<fakes::MeanHook>(rank.process_group, torch::kFloat);
      EXPECT_THROW(
          std::ignore = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, spec, nullptr, hook),
          InvalidJob);
    });
  }
}

TEST(MakeGradientSync, TakesTheModelsCommunicationHook) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    auto group = group_of(rank);
    const auto weight = torch::ones({3}, torch::requires_grad());
    const auto hook = std::make_shared<fakes::MeanHook>(rank.process_group, torch::kHalf);
    const auto sync =
        make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, api::StrategySpec{}, nullptr, hook);
    sync->begin_backward(true);
    (weight.sum() * 1.0001).backward();
    ASSERT_TRUE(sync->finish_gradients());
    EXPECT_TRUE(torch::equal(weight.grad(), torch::ones({3}))) << "the hook has rounded it to 16 bits";
  });
}

}  // namespace
}  // namespace trainyard::strategy
