#include "worker/strategy/strategies.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/mean_hook.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/exchange_timeline.hpp"

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

TEST(MakeGradientSync, SaysAlikeOnAnyNumberOfRanksWhatTheRanksHaveInCommon) {
  struct Case {
    api::StrategySpec spec;
    bool has_equal_parameters, has_equal_optimizers;
  };
  const Case cases[] = {
      {{}, true, true},
      {{.name = api::StrategyName::horovod, .op = api::ReductionOp::sum}, true, true},
      {{.name = api::StrategyName::horovod, .op = api::ReductionOp::adasum}, true, false},
      {{.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad}, true, true},
      {{.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::qadam}, true, true},
      {{.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized}, false, false},
      {{.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::low_precision_decentralized}, false, false},
  };
  for (const std::int64_t ranks : {1, 2}) {
    fakes::run_ranks(ranks, [&](fakes::RankThread& rank) {
      auto group = group_of(rank);
      for (const auto& [spec, has_equal_parameters, has_equal_optimizers] : cases) {
        const auto weight = torch::ones({3}, torch::requires_grad());
        const auto sync = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, spec);
        EXPECT_EQ(sync->keeps_parameters_equal(), has_equal_parameters) << ranks << " ranks";
        EXPECT_EQ(sync->keeps_optimizer_equal(), has_equal_optimizers) << ranks << " ranks";
      }
    });
  }
}

/// How many parameters each bucket has, of 60 parameters of half a MiB.
std::vector<std::string> buckets_of(const api::StrategySpec& spec) {
  std::vector<std::string> names;
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    auto group = group_of(rank);
    NamedTensors parameters;
    for (int index = 0; index < 60; ++index)
      parameters.emplace_back(std::to_string(index), torch::empty({1 << 17}, torch::requires_grad()));
    ExchangeTimeline timeline{[] { return Instant{}; }};
    const auto sync = make_gradient_sync(parameters, {}, group, fakes::plain_wait, {}, spec, &timeline);
    if (rank.rank != 0) return;
    const nlohmann::json trace = timeline.chrome_trace(0);
    for (const auto& event : trace["traceEvents"]) {
      const auto name = event["args"].value("name", "");
      if (name.starts_with("bucket ")) names.push_back(name.substr(name.find(": ") + 2));
    }
  });
  return names;
}

TEST(MakeGradientSync, FillsBucketsOfTheSizeThatTheJobAsksFor) {
  const auto of = [](const std::vector<int>& counts) {
    std::vector<std::string> names;
    for (const int count : counts) names.push_back(std::to_string(count) + " parameters");
    return names;
  };
  // The first bucket of ddp is sent after 1 MiB at the latest.
  EXPECT_EQ(buckets_of({}), of({2, 50, 8}));
  EXPECT_EQ(buckets_of({.name = api::StrategyName::ddp2, .bucket_mib = 20}), of({2, 40, 18}));
  EXPECT_EQ(buckets_of({.gradient_compression = api::GradientCompression::fp16, .bucket_mib = 1}),
            of(std::vector<int>(30, 2)));
  EXPECT_EQ(buckets_of({.name = api::StrategyName::horovod}), of({60}));
  EXPECT_EQ(buckets_of({.name = api::StrategyName::horovod, .bucket_mib = 1, .fusion_threshold_mib = 12}),
            of({24, 24, 12}));
  EXPECT_EQ(buckets_of({.name = api::StrategyName::horovod, .fusion_threshold_mib = 0}).size(), 60U);
  EXPECT_EQ(buckets_of({.name = api::StrategyName::bagua}), of({20, 20, 20}));
  EXPECT_EQ(buckets_of({.name = api::StrategyName::bagua, .bucket_mib = 16}), of({32, 28}));
  EXPECT_EQ(buckets_of({.autotune = true}), of(std::vector<int>(30, 2))) << "1 MiB is tried first";
}

TEST(MakeGradientSync, ExchangesGradientsAsTheJobAsksFor) {
  using Compression = api::GradientCompression;
  struct Case {
    std::string what;
    api::StrategySpec spec;
    std::uint64_t bytes;  // Sent in one step; each exchange also sends a number that says whether the weight was used.
    float gradient;
  };
  // A number that 16 bits of float16 hold, and those of bfloat16 do not.
  constexpr float own = 1.0F + 1.0F / 1024;
  const Case cases[] = {
      {"ddp", {}, 4 * 257, own},
      {"fp16", {.gradient_compression = Compression::fp16}, 2 * 257, own},
      {"bf16", {.gradient_compression = Compression::bf16}, 2 * 257, 1.0F},
      {"PowerSGD of rank 1",
       {.gradient_compression = Compression::powersgd, .power_sgd = {.rank = 1, .start_step = 0}},
       4 * (1 + 16 + 16),
       own},
      {"PowerSGD of rank 2",
       {.gradient_compression = Compression::powersgd, .power_sgd = {.rank = 2, .start_step = 0}},
       4 * (1 + 2 * (16 + 16)),
       own},
      {"PowerSGD before it starts",
       {.gradient_compression = Compression::powersgd, .power_sgd = {.rank = 1, .start_step = 1}},
       4 * 257,
       own},
      {"horovod", {.name = api::StrategyName::horovod}, 4 * 257, own},
      {"horovod's sum", {.name = api::StrategyName::horovod, .op = api::ReductionOp::sum}, 4 * 257, 2 * own},
      {"horovod in bf16",
       {.name = api::StrategyName::horovod, .gradient_compression = Compression::bf16},
       2 * 257,
       1.0F},
      {"horovod with another division",
       {.name = api::StrategyName::horovod, .gradient_predivide_factor = 4.0},
       4 * 257,
       own},
      {"bagua", {.name = api::StrategyName::bagua}, 4 * 257, own},
      // Three times a part of 128 bytes with a head of 32.
      {"bytegrad",
       {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad},
       3 * (128 + 32) + 4,
       own},
  };
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    auto group = group_of(rank);
    for (const Case& c : cases) {
      const auto weight = torch::ones({16, 16}, torch::requires_grad());
      const auto sync = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, c.spec);
      sync->zero_gradients();
      sync->begin_backward(/*is_last_batch=*/true);
      (weight * own).sum().backward();
      ASSERT_TRUE(sync->finish_gradients());
      EXPECT_TRUE(torch::allclose(weight.grad(), torch::full({16, 16}, c.gradient), 0.0, 1e-5))
          << c.what << ": " << weight.grad()[0][0].item<float>();
      EXPECT_EQ(sync->exchanged_bytes(), c.bytes) << c.what;
    }
  });
}

TEST(MakeGradientSync, KeepsOfPowerSgdWhatTheJobAsksFor) {
  const auto kept_with = [](const api::PowerSgdSpec& power_sgd) {
    std::vector<std::string> names;
    fakes::run_ranks(2, [&](fakes::RankThread& rank) {
      auto group = group_of(rank);
      const auto weight = torch::ones({16, 16}, torch::requires_grad());
      const auto sync =
          make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {},
                             {.gradient_compression = api::GradientCompression::powersgd, .power_sgd = power_sgd});
      if (rank.rank != 0) return;
      for (const auto& [name, tensor] : sync->state()) names.push_back(name);
    });
    return names;
  };
  using testing::UnorderedElementsAre;
  EXPECT_THAT(kept_with({}), UnorderedElementsAre("powersgd.steps", "powersgd.error.weight", "powersgd.q1.weight"));
  EXPECT_THAT(kept_with({.error_feedback = false}), UnorderedElementsAre("powersgd.steps", "powersgd.q1.weight"));
  EXPECT_THAT(kept_with({.warm_start = false}), UnorderedElementsAre("powersgd.steps", "powersgd.error.weight"));
}

}  // namespace
}  // namespace trainyard::strategy
