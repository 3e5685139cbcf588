#include "worker/train/rank_context.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/small_module.hpp"
#include "tests/worker/train/training_run.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<void> wait_or_say(const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
  try {
    work->wait();
    return {};
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, std::string{what} + ": " + error.what());
  }
}

/// Runs `body` with a module that has a context, on each of `world_size` ranks.
void with_modules(std::int64_t world_size, const std::function<void(Module&, fakes::RankThread&)>& body) {
  std::vector<std::shared_ptr<SmallModule>> modules;
  for (std::int64_t rank = 0; rank < world_size; ++rank) modules.push_back(make_small_module(3));
  fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
    RankContext context{{.process_group = rank.process_group, .communicator = *rank.communicator, .wait = wait_or_say}};
    Module& module = *modules[static_cast<std::size_t>(rank.rank)];
    module.set_rank_context(&context);
    body(module, rank);
  });
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(AllGather, StacksTheTensorsOfAllRanksInTheirOrderForEachDtype) {
  for (const std::int64_t world_size : {1, 3}) {
    with_modules(world_size, [&](Module& module, fakes::RankThread& rank) {
      for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kLong, torch::kShort}) {
        const torch::Tensor own = torch::arange(6, type).reshape({2, 3}) + rank.rank;
        const torch::Tensor all = module.all_gather(own);
        ASSERT_EQ(all.sizes(), (std::vector<std::int64_t>{world_size, 2, 3}));
        EXPECT_EQ(all.scalar_type(), type);
        for (std::int64_t other = 0; other < world_size; ++other)
          EXPECT_TRUE(torch::equal(all[other], own - rank.rank + other));
      }
      const torch::Tensor is_odd = module.all_gather(torch::tensor(rank.rank % 2 == 1));
      EXPECT_EQ(is_odd.sizes(), std::vector<std::int64_t>{world_size});
      EXPECT_FALSE(is_odd[0].item<bool>());
      EXPECT_EQ(module.all_gather(torch::empty({0, 4})).sizes(), (std::vector<std::int64_t>{world_size, 0, 4}));
    });
  }
}

TEST(AllGather, GivesACopyWithoutHistoryOfATensorThatIsNotContiguous) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    const torch::Tensor own = (torch::ones({2, 3}) * static_cast<double>(rank.rank)).requires_grad_();
    const torch::Tensor all = module.all_gather(own.t());
    EXPECT_FALSE(all.requires_grad());
    EXPECT_EQ(all.sizes(), (std::vector<std::int64_t>{2, 3, 2}));
    EXPECT_EQ(all.sum().item<double>(), 6.0);
  });
}

TEST(AllGather, GathersATreeAndLeavesUndefinedTensorsOut) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    const auto number = static_cast<double>(rank.rank);
    const TensorTree tree{
        {"byte", torch::full({1}, rank.rank, torch::kUInt8)},
        {"nothing", TensorTree{}},
        {"pair", TensorTree::list({torch::full({}, number), torch::full({2}, number, torch::kDouble)})}};
    const TensorTree all = module.all_gather(tree);
    EXPECT_TRUE(torch::equal(all.at("byte").tensor(), torch::tensor({0, 1}, torch::kUInt8).reshape({2, 1})));
    EXPECT_FALSE(all.at("nothing").tensor().defined());
    EXPECT_TRUE(torch::equal(all.at("pair").at(0).tensor(), torch::tensor({0.0F, 1.0F})));
    EXPECT_EQ(all.at("pair").at(1).tensor()[1].sum().item<double>(), 2.0);
    EXPECT_EQ(module.all_gather(TensorTree{}).size(), 0U);
  });
}

TEST(AllGather, NamesTheRankWhoseTensorDiffers) {
  with_modules(3, [](Module& module, fakes::RankThread& rank) {
    const std::int64_t rows = rank.rank == 2 ? 5 : 4;
    EXPECT_EQ(refusal_of([&] {
                (void)module.all_gather(torch::zeros({rows, 2}));
              }),
              "all_gather needs equal shapes and types on all ranks, in calls that all ranks make alike: rank 0 sent "
              "'all_gather of Float [4, 2] on the CPU', rank 2 sent 'all_gather of Float [5, 2] on the CPU'");
    const auto type = rank.rank == 1 ? torch::kHalf : torch::kFloat;
    EXPECT_THAT(refusal_of([&] { (void)module.all_gather(torch::zeros({2}, type)); }), HasSubstr("rank 1 sent"));
  });
}

TEST(AllGather, NamesARankThatHasNoTensor) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    const TensorTree own = rank.rank == 0 ? TensorTree{torch::zeros({2})} : TensorTree{};
    EXPECT_THAT(refusal_of([&] { (void)module.all_gather(own); }),
                HasSubstr("rank 0 sent 'all_gather of Float [2] on the CPU', rank 1 sent 'all_gather of no tensor'"));
  });
}

TEST(AllGather, ShowsTheBeginningOfALongListOfTensors) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    const std::vector<TensorTree> trees(rank.rank == 0 ? 20 : 21, TensorTree{torch::zeros({1})});
    const std::string refusal = refusal_of([&] { (void)module.all_gather(TensorTree::list(trees)); });
    EXPECT_THAT(refusal, HasSubstr("...', rank 1 sent 'all_gather of Float [1] on the CPU; Float [1] on the CPU; "));
    EXPECT_THAT(refusal, testing::EndsWith("...'"));
    EXPECT_LT(refusal.size(), 600U);
  });
}

TEST(AllGather, IsToldApartFromTheMetricsThatAnotherRankReduces) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    if (rank.rank == 0) {
      EXPECT_THAT(refusal_of([&] { (void)module.all_gather(torch::zeros({2})); }), HasSubstr("rank 1 sent ''"));
      return;
    }
    observe::MetricSums sums;
    sums.add("loss", torch::ones({}), 1.0, {});
    const auto reduced = sums.reduce(*rank.communicator);
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().kind, ErrorKind::conflict);
    EXPECT_EQ(reduced.error().message,
              "rank 0 sent 'all_gather of Float [2] on the CPU' where rank 1 reduces its metrics: all ranks have to "
              "call Module::all_gather alike");
  });
}

TEST(AllGather, EndsWithTheGroupsErrorWhenARankDoesNotCall) {
  with_modules(2, [](Module& module, fakes::RankThread& rank) {
    if (rank.rank == 1) return;  // It ends, as a rank does that was lost.
    EXPECT_THROW((void)module.all_gather(torch::zeros({2})), strategy::ExchangeFailed);
  });
}

TEST(AllGather, SaysThatTheExchangeFailed) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    const auto failure = std::make_exception_ptr(std::runtime_error{"Connection closed by peer"});
    const RankContext cannot_send{{.process_group = c10::make_intrusive<fakes::BrokenGroup>(failure),
                                   .communicator = *rank.communicator,
                                   .wait = wait_or_say}};
    const RankContext times_out{
        {.process_group = rank.process_group,
         .communicator = *rank.communicator,
         .wait = [](const c10::intrusive_ptr<c10d::Work>&, std::string_view what) -> Result<void> {
           return fail(ErrorKind::timeout, std::string{what} + " was not done after 5 s");
         }}};
    const auto thrown = [](const RankContext& context) {
      try {
        (void)context.all_gather({torch::zeros({2})});
      } catch (const strategy::ExchangeFailed& error) {
        return error.error();
      }
      return Error{};
    };
    EXPECT_EQ(thrown(cannot_send).kind, ErrorKind::unavailable);
    EXPECT_EQ(thrown(cannot_send).message, "sending the tensors of all_gather: Connection closed by peer");
    EXPECT_EQ(thrown(times_out).kind, ErrorKind::timeout);
    EXPECT_EQ(thrown(times_out).message, "all_gather was not done after 5 s");
  });
}

TEST(Module, HasNoFactsBeforeTheTrainingBegins) {
  const auto module = make_small_module(3);
  EXPECT_THROW((void)module->rank(), std::logic_error);
  EXPECT_THROW((void)module->global_step(), std::logic_error);
  EXPECT_THROW((void)module->all_gather(torch::zeros({1})), std::logic_error);
}

TEST(Module, KnowsStepEpochRankAndDeviceInEachStep) {
  TrainingRun run;
  run.training.epochs = 2;
  run.training.batch_size = 25;  // Two steps an epoch.
  std::vector<std::vector<std::int64_t>> trained(2);
  std::vector<std::vector<std::int64_t>> validated(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    SmallModule& module = *run.ranks[rank].module;
    module.on_step = [&, rank](std::int64_t) {
      EXPECT_EQ(module.rank(), static_cast<std::int64_t>(rank));
      EXPECT_EQ(module.is_global_zero(), rank == 0);
      EXPECT_EQ(module.world_size(), 2);
      EXPECT_EQ(module.device(), torch::Device{torch::kCPU});
      EXPECT_TRUE(torch::equal(module.all_gather(torch::tensor(module.rank())), torch::arange(2)));
      trained[rank].push_back(module.global_step() * 10 + module.current_epoch());
    };
    module.on_validation = [&, rank](std::int64_t) {
      validated[rank].push_back(module.global_step() * 10 + module.current_epoch());
    };
  }
  run.run();
  ASSERT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
  EXPECT_THAT(trained, testing::Each(ElementsAre(0, 10, 21, 31)));
  EXPECT_THAT(validated, testing::Each(ElementsAre(20, 41)));
}

}  // namespace
}  // namespace trainyard::train
