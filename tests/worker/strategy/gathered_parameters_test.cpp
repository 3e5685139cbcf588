// Sharded with parameters in parts.
#include "worker/strategy/gathered_parameters.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/tiny_model.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/strategy/exchange_failed.hpp"
#include "worker/strategy/sharded.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;
using testing::HasSubstr;

Sharded make_strategy(const torch::nn::Module& module, RankThread& rank, bool shards_parameters = true) {
  return Sharded{
      parameters_of(module), buffers_of(module), rank.process_group,
      *rank.communicator,    plain_wait,         {.limits = small_limits, .shards_parameters = shards_parameters}};
}

void update_rows(const Sharded& sharded) {
  const torch::NoGradGuard no_grad;
  for (const ParameterShard& shard : sharded.shards()) {
    if (shard.rows.grad().defined()) torch::Tensor{shard.rows}.sub_(shard.rows.grad(), tiny_lr);
  }
}

/// One step on `loss`, which is called in the forward pass.
Result<void> step_on(Sharded& sharded, const std::function<torch::Tensor()>& loss, int batches = 1) {
  sharded.zero_gradients();
  for (int batch = 0; batch < batches; ++batch) {
    const torch::Tensor value = [&] {
      const ForwardScope scope{sharded};
      return loss();
    }();
    const BackwardScope scope{sharded, /*is_last_batch=*/batch + 1 == batches};
    value.backward();
  }
  TRY(sharded.finish_gradients());
  update_rows(sharded);
  return sharded.after_update();
}

/// The state of rank 0's model after its training.
torch::Tensor state_after_training(std::int64_t world_size, bool shards_parameters, int batches = 1) {
  std::vector<std::shared_ptr<TinyModel>> models;
  for (std::int64_t rank = 0; rank < world_size; ++rank) models.push_back(make_tiny_model(rank));
  torch::Tensor state;
  run_ranks(world_size, [&](RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    Sharded sharded = make_strategy(model, rank, shards_parameters);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    for (std::int64_t step = 0; step < 6; ++step) {
      const TinyBatch batch = make_tiny_batch(step, rank.rank);
      const auto done = step_on(
          sharded, [&] { return loss_of(model, batch); }, batches);
      ASSERT_TRUE(done.has_value()) << done.error().message;
    }
    torch::Tensor own;
    ASSERT_TRUE(sharded.read_parameters([&] { own = flat_state(model); }).has_value());
    if (rank.rank == 0) state = own;
  });
  return state;
}

TEST(GatheredParameters, TrainToTheBitsOfParametersThatAreWhole) {
  for (const std::int64_t world_size : {2, 3, 4}) {
    for (const int batches : {1, 2}) {
      EXPECT_TRUE(torch::equal(state_after_training(world_size, true, batches),
                               state_after_training(world_size, false, batches)))
          << world_size << " ranks";
    }
    EXPECT_LT((state_after_training(world_size, true) - train_by_ddp(world_size, 6)[0]).abs().max().item<float>(),
              1e-5F);
  }
}

/// True when none of the module's parameters has memory.
bool are_absent(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    if (item.value().storage().data() != nullptr) return false;
  }
  return true;
}

TEST(GatheredParameters, HaveMemoryOnlyInPasses) {
  run_ranks(2, [&](RankThread& rank) {
    TinyModel model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    EXPECT_TRUE(are_absent(model));
    for (std::int64_t step = 0; step < 2; ++step) {
      ASSERT_TRUE(step_on(sharded, [&] { return loss_of(model, make_tiny_batch(step, rank.rank)); }).has_value());
      EXPECT_TRUE(are_absent(model));
    }
    try {
      static_cast<void>(model.out->weight.sum());
      ADD_FAILURE() << "nobody has the parameter";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("the parameter out.weight was used outside of a training step"));
    }
    ASSERT_TRUE(sharded.make_parameters_whole().has_value());
    EXPECT_TRUE(model.out->weight.sum().isfinite().item<bool>());
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    EXPECT_TRUE(are_absent(model));
  });
}

/// Whether the tensor's memory is FreedMemory::returned, by where it begins: that of the process's allocator begins
/// behind a few bytes of the allocator's own.
bool is_returned_when_freed(const torch::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.storage().data()) % (2U << 20) == 0;
}

TEST(GatheredParameters, HaveMemoryThatGoesBackToTheSystemAndOthersKeepTheirs) {
  run_ranks(2, [&](RankThread& rank) {
    for (const bool shards_parameters : {true, false}) {
      torch::nn::Linear line{1024, 1024};
      Sharded sharded = make_strategy(*line, rank, shards_parameters);
      ASSERT_TRUE(sharded.synchronize_model().has_value());
      ASSERT_TRUE(step_on(sharded, [&] { return line(torch::ones({2, 1024})).sum(); }).has_value());
      EXPECT_EQ(is_returned_when_freed(sharded.shards().front().rows.grad()), shards_parameters);
      EXPECT_EQ(is_returned_when_freed(sharded.shards().front().rows), shards_parameters);
      ASSERT_TRUE(sharded.make_parameters_whole().has_value());
      EXPECT_EQ(is_returned_when_freed(line->weight), shards_parameters);
    }
  });
}

/// Lines of which each rank may use others.
struct ForkedLines : torch::nn::Module {
  ForkedLines() {
    for (const char* name : {"first", "second", "third", "fourth", "fifth"})
      lines.push_back(register_module(name, torch::nn::Linear{16, 16}));
  }
  torch::Tensor loss(const std::vector<std::size_t>& used) {
    torch::Tensor values = torch::ones({2, 16});
    for (const std::size_t line : used) values = torch::tanh(lines[line](values));
    return values.sum();
  }
  std::vector<torch::nn::Linear> lines;
};

TEST(GatheredParameters, LetEachRankTakeBranchesOfItsOwnInAnyOrder) {
  const std::vector<std::vector<std::vector<std::size_t>>> by_step_and_rank{{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}},
                                                                            {{0, 1, 2, 3}, {3, 2, 1, 0}, {2}},
                                                                            {{4}, {0, 1, 0, 1, 0, 1, 0, 1, 2, 3}, {1}},
                                                                            {{1, 3}, {2}, {4, 2, 4, 0}},
                                                                            {{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 3}}};
  std::vector<torch::Tensor> ends;
  for (const bool shards_parameters : {false, true}) {
    std::vector<torch::Tensor> of_ranks(3);
    torch::manual_seed(1);
    const auto start = std::make_shared<ForkedLines>();
    run_ranks(3, [&](RankThread& rank) {
      ForkedLines model;
      {
        const torch::NoGradGuard no_grad;
        for (std::size_t index = 0; index < model.parameters().size(); ++index)
          model.parameters()[index].copy_(start->parameters()[index]);
      }
      const auto place = static_cast<std::size_t>(rank.rank);
      Sharded sharded = make_strategy(model, rank, shards_parameters);
      ASSERT_TRUE(sharded.synchronize_model().has_value());
      for (const auto& by_rank : by_step_and_rank) {
        const auto done = step_on(sharded, [&] { return model.loss(by_rank[place]); });
        ASSERT_TRUE(done.has_value()) << done.error().message;
      }
      ASSERT_TRUE(sharded.read_parameters([&] { of_ranks[place] = flat_state(model); }).has_value());
    });
    for (const torch::Tensor& of_rank : of_ranks) EXPECT_TRUE(torch::equal(of_rank, of_ranks[0]));
    ends.push_back(of_ranks[0]);
  }
  EXPECT_TRUE(torch::equal(ends[0], ends[1]));
}

TEST(GatheredParameters, AreReadByOneRankAloneWhileTheOthersTakePart) {
  run_ranks(2, [&](RankThread& rank) {
    ForkedLines model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    double sum = 0;
    const auto done = sharded.read_parameters([&] {
      if (rank.rank == 1) sum = model.loss({0, 1, 2, 3, 4}).item<double>();
    });
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(sum != 0, rank.rank == 1);
  });
}

TEST(GatheredParameters, HaveSecondDerivatives) {
  run_ranks(2, [&](RankThread& rank) {
    ForkedLines model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    const auto done = step_on(sharded, [&] {
      const torch::Tensor input = torch::ones({2, 16}, torch::requires_grad());
      torch::Tensor values = input;
      for (auto& line : model.lines) values = torch::tanh(line(values));
      const auto gradients = torch::autograd::grad({values.sum()}, {input}, {}, true, /*create_graph=*/true);
      return values.sum() + gradients[0].square().sum();
    });
    EXPECT_TRUE(done.has_value());
    EXPECT_TRUE(are_absent(model));
  });
}

TEST(GatheredParameters, AreGatheredInABackwardPassThatTorchsDispatcherBegins) {
  run_ranks(2, [&](RankThread& rank) {
    ForkedLines model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    sharded.zero_gradients();
    const torch::Tensor loss = [&] {
      const ForwardScope scope{sharded};
      return model.loss({0, 1, 2, 3, 4});
    }();
    {
      const BackwardScope scope{sharded, /*is_last_batch=*/true};
      const auto backward = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_backward", "");
      torch::jit::Stack stack{loss, c10::List<torch::Tensor>{}, c10::IValue{}, c10::IValue{}, false};  // As a script's.
      backward.callBoxed(&stack);
    }
    ASSERT_TRUE(sharded.finish_gradients().has_value());
    for (const ParameterShard& shard : sharded.shards()) EXPECT_TRUE(shard.rows.grad().defined());
  });
}

TEST(GatheredParameters, TakeGatheringForNoChangeOfWhatAutogradHasSaved) {
  run_ranks(2, [&](RankThread& rank) {
    ForkedLines model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    const auto version = model.lines[0]->weight._version();
    ASSERT_TRUE(step_on(sharded, [&] { return model.loss({0, 1, 2, 3, 4}); }).has_value());
    EXPECT_EQ(model.lines[0]->weight._version(), version);
  });
}

TEST(GatheredParameters, EndTheOtherRanksWithTheRoundsMessageWhenOneIsLost) {
  for (const bool is_in_backward : {false, true}) {
    std::string message;
    run_ranks(2, [&](RankThread& rank) {
      ForkedLines model;
      Sharded sharded = make_strategy(model, rank);
      ASSERT_TRUE(sharded.synchronize_model().has_value());
      sharded.zero_gradients();
      if (rank.rank == 1 && !is_in_backward) return;
      try {
        const torch::Tensor loss = [&] {
          const ForwardScope scope{sharded};
          return model.loss({0, 1, 2, 3, 4});
        }();
        if (rank.rank == 1) return;
        const BackwardScope scope{sharded, /*is_last_batch=*/true};
        loss.backward();
        ADD_FAILURE() << "rank 1 is gone";
      } catch (const ExchangeFailed& failed) {
        EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
        message = failed.error().message;
      }
      EXPECT_FALSE(sharded.read_parameters([] {}).has_value()) << "nothing is exchanged after a failure";
    });
    EXPECT_THAT(message, HasSubstr("the ranks' round for the parameters of the bucket of ")) << is_in_backward;
  }
}

TEST(GatheredParameters, RefuseARoundInWhichAPeerSendsNoMessageOfOne) {
  for (const std::string sent : {"", "{", "[]", "[false,0]", "[1,0,[]]", "[false,-1,[]]", "[false,0,0]",
                                 "[false,0,[-1]]", "[false,0,[\"0\"]]", "[false,0,[99]]"}) {
    run_ranks(2, [&](RankThread& rank) {
      ForkedLines model;
      Sharded sharded = make_strategy(model, rank);
      ASSERT_TRUE(sharded.synchronize_model().has_value());
      if (rank.rank == 1) {
        EXPECT_TRUE(rank.communicator->all_gather(sent).has_value());
        return;
      }
      try {
        static_cast<void>(sharded.read_parameters([&] { static_cast<void>(model.loss({0})); }));
        ADD_FAILURE() << sent;
      } catch (const ExchangeFailed& failed) {
        EXPECT_EQ(failed.error().kind, ErrorKind::invalid) << sent;
        EXPECT_THAT(failed.error().message, HasSubstr("rank 1 sent ")) << sent;
      }
    });
  }
}

TEST(GatheredParameters, LeaveAPassThatFailsOnThisRankAlone) {
  run_ranks(2, [&](RankThread& rank) {
    ForkedLines model;
    Sharded sharded = make_strategy(model, rank);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    if (rank.rank == 0) {
      EXPECT_THROW(
          {
            const ForwardScope scope{sharded};
            throw std::runtime_error{"a bad sample"};
          },
          std::runtime_error);
      EXPECT_THROW(static_cast<void>(sharded.read_parameters([] { throw std::runtime_error{"a bad sample"}; })),
                   std::runtime_error);
      return;
    }
    EXPECT_THROW(
        {
          const ForwardScope scope{sharded};
          static_cast<void>(model.loss({0, 1, 2, 3, 4}));
        },
        ExchangeFailed)
        << "rank 0 takes no part";
  });
}

TEST(GatheredParameters, RefuseParametersThatShareMemory) {
  run_ranks(1, [&](RankThread& rank) {
    torch::nn::Module model;
    const torch::Tensor both = torch::ones({8, 4});
    model.register_parameter("upper", both.narrow(0, 0, 4));
    try {
      make_strategy(model, rank);
      ADD_FAILURE() << "the rest of the memory would be freed too";
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot free the parameter upper, which is 64 bytes in a memory of 128"));
    }
    model.register_parameter("lower", both.narrow(0, 4, 4));
    try {
      make_strategy(model, rank);
      ADD_FAILURE() << "the parameters would overwrite each other";
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), HasSubstr("upper"));
    }
  });
}

}  // namespace
}  // namespace trainyard::strategy
