#include "worker/strategy/ddp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/skips.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/tiny_model.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/strategies.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;

/// Rank 0's state after training by c10d::Reducer.
torch::Tensor train_by_reducer(std::int64_t world_size, std::int64_t steps) {
  std::vector<std::shared_ptr<TinyModel>> models;
  for (std::int64_t rank = 0; rank < world_size; ++rank) models.push_back(make_tiny_model(0));
  torch::Tensor state;
  run_ranks(world_size, [&](RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    std::vector<torch::Tensor> parameters = model.parameters();
    std::vector<std::size_t> all(parameters.size());
    for (std::size_t index = 0; index < all.size(); ++index) all[index] = index;
    c10d::Reducer reducer{parameters,
                          {all},
                          rank.process_group,
                          std::vector<bool>(parameters.size(), false),
                          /*bucket_bytes_cap=*/1000,
                          /*find_unused_parameters=*/false,
                          /*gradient_as_bucket_view=*/false,
                          {},
                          /*first_bucket_bytes_cap=*/100,
                          /*skip_all_reduce_unused_params=*/false,
                          /*use_python_reducer=*/false,
                          {}};
    for (std::int64_t step = 0; step < steps; ++step) {
      std::vector<torch::Tensor> buffers = model.buffers();
      c10d::broadcast_coalesced(rank.process_group, buffers, 1 << 20, 0);
      const TinyBatch batch = make_tiny_batch(step, rank.rank);
      reducer.prepare_for_forward();
      reducer.rebuild_buckets();
      const torch::Tensor loss = loss_of(model, batch);
      reducer.prepare_for_backward({});
      for (torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      loss.backward();
      descend(model, tiny_lr);
    }
    if (rank.rank == 0) state = flat_state(model);
  });
  return state;
}

TEST(Ddp, TrainsToTheBitsOfC10dsReducerOnTwoRanks) {
  EXPECT_TRUE(torch::equal(train_by_ddp(2, 8)[0], train_by_reducer(2, 8)));
}

TEST(Ddp, TrainsToTheParametersOfC10dsReducerOnFourRanks) {
  // Four terms are summed in an order that depends on the buckets' layout, so the last bits may differ.
  const torch::Tensor difference = (train_by_ddp(4, 8)[0] - train_by_reducer(4, 8)).abs().max();
  EXPECT_LT(difference.item<float>(), 1e-5F);
}

TEST(Ddp, LeavesEqualBitsOnAllRanks) {
  const auto states = train_by_ddp(4, 8);
  for (std::size_t rank = 1; rank < states.size(); ++rank)
    EXPECT_TRUE(torch::equal(states[0], states[rank])) << "rank " << rank;
}

TEST(Ddp, HasTheParametersOfPythonsDdpAfterEachStep) {
  if (!has_python_torch()) return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  for (const std::int64_t world_size : {2, 4}) {
    const torch::Tensor difference = states_by_ddp(world_size, 8)[0] - states_by_python(world_size, 8);
    EXPECT_LT(difference.abs().max().item<float>(), 1e-5F) << world_size << " ranks";
  }
}

TEST(Ddp, HasTheParametersOfPythonsJoinWhereSomeRanksHaveNoMoreBatches) {
  if (!has_python_torch()) return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  std::vector<torch::Tensor> states;
  const std::vector models{make_tiny_model(0), make_tiny_model(1), make_tiny_model(2)};
  run_ranks(3, [&](RankThread& rank) {
    TinyModel& model = *models.at(static_cast<std::size_t>(rank.rank));
    Ddp ddp = make_ddp(model, rank);
    ASSERT_TRUE(ddp.synchronize_model());
    for (std::int64_t step = 0; step < 8; ++step) {
      if (step < 8 - 3 * rank.rank) {
        train_step(ddp, model, make_tiny_batch(step, rank.rank));
      } else {
        ddp.zero_gradients();
        { const BackwardScope scope{ddp, /*is_last_batch=*/true}; }
        ASSERT_TRUE(ddp.finish_gradients());
        descend(model, tiny_lr);
      }
      if (rank.rank == 0) states.push_back(flat_state(model));
    }
  });
  // Python's buffers are those of the last rank that still has batches, and not rank 0's.
  std::int64_t numbers = 0;
  for (const torch::Tensor& parameter : models[0]->parameters()) numbers += parameter.numel();
  const torch::Tensor difference = torch::stack(states) - states_by_python(3, 8, "join");
  EXPECT_LT(difference.narrow(1, 0, numbers).abs().max().item<float>(), 1e-5F);
  EXPECT_EQ(strategy::checksum(parameters_of(*models[0])), strategy::checksum(parameters_of(*models[2])));
}

TEST(Ddp, HasTheParametersOfPythonsDdpThatFindsUnusedParameters) {
  if (!has_python_torch()) return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  std::vector<torch::Tensor> states;
  const std::vector models{make_tiny_model(0), make_tiny_model(1)};
  run_ranks(2, [&](RankThread& rank) {
    TinyModel& model = *models.at(static_cast<std::size_t>(rank.rank));
    Ddp ddp = make_ddp(model, rank);
    ASSERT_TRUE(ddp.synchronize_model());
    for (std::int64_t step = 0; step < 8; ++step) {
      train_step(ddp, model, make_tiny_batch(step, rank.rank), (step + rank.rank) % 3 == 0 || step == 5);
      EXPECT_EQ(model.conv->weight.grad().defined(), step != 5) << "step " << step;
      if (rank.rank == 0) states.push_back(flat_state(model));
    }
  });
  EXPECT_LT((torch::stack(states) - states_by_python(2, 8, "unused")).abs().max().item<float>(), 1e-5F);
}

TEST(Single, HasTheParametersOfPythonsAfterEachStep) {
  if (!has_python_torch()) return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  const auto model = make_tiny_model(0);
  std::vector<torch::Tensor> states;
  run_ranks(1, [&](RankThread& rank) {
    dist::Group group{.rank = 0, .world_size = 1, .store = {}, .process_group = rank.process_group};
    const auto sync = make_gradient_sync(parameters_of(*model), buffers_of(*model), group, plain_wait, {},
                                         {.name = api::StrategyName::single});
    ASSERT_TRUE(sync->synchronize_model());
    for (std::int64_t step = 0; step < 8; ++step) {
      train_step(*sync, *model, make_tiny_batch(step, 0));
      states.push_back(flat_state(*model));
    }
  });
  EXPECT_LT((torch::stack(states) - states_by_python(1, 8)).abs().max().item<float>(), 1e-5F);
}

TEST(Ddp, LeavesGradientsThatAreViewsOfTheirBucket) {
  const auto models = std::array{make_tiny_model(0), make_tiny_model(1)};
  run_ranks(2, [&](RankThread& rank) {
    TinyModel& model = *models.at(static_cast<std::size_t>(rank.rank));
    Ddp ddp = make_ddp(model, rank, {.limits = {}});  // one bucket
    ASSERT_TRUE(ddp.synchronize_model());
    const void* bucket = nullptr;
    for (std::int64_t step = 0; step < 3; ++step) {
      train_step(ddp, model, make_tiny_batch(step, rank.rank));
      for (const torch::Tensor& parameter : model.parameters()) {
        const void* const memory = parameter.grad().storage().data();
        if (bucket == nullptr) bucket = memory;
        EXPECT_EQ(memory, bucket) << "step " << step;
      }
    }
  });
}

TEST(Ddp, NamesTheParameterThatDiffersBetweenRanks) {
  std::vector<std::string> messages(2);
  run_ranks(2, [&](RankThread& rank) {
    torch::nn::Sequential model{torch::nn::Linear{4, 4}, torch::nn::Linear{4, 2 + rank.rank}};
    const auto done = make_ddp(*model, rank).synchronize_model();
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, ErrorKind::invalid);
    messages[static_cast<std::size_t>(rank.rank)] = done.error().message;
  });
  EXPECT_EQ(
      messages[0],
      "the ranks' models differ: tensor 2 is '1.weight Float [2, 4]' on rank 0 and '1.weight Float [3, 4]' on rank 1");
  EXPECT_EQ(messages[1], messages[0]);
}

TEST(Ddp, SendsAModelInMessagesOfBoundedSize) {
  run_ranks(2, [&](RankThread& rank) {
    constexpr std::int64_t megabytes = 1 << 18;  // floats
    NamedTensors tensors;
    for (const std::int64_t size :
         {std::int64_t{0}, 20 * megabytes, 20 * megabytes, 12 * megabytes, std::int64_t{3}, 40 * megabytes})
      tensors.emplace_back("a", torch::full({size}, static_cast<double>(rank.rank + 1)));
    std::int64_t waits = 0;
    const WaitForWork wait = [&waits](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      ++waits;
      EXPECT_EQ(what, "the broadcast of the test");
      return fakes::plain_wait(work, what);
    };
    ASSERT_TRUE(broadcast_from_rank0(tensors, rank.process_group, wait, "the test").has_value());
    EXPECT_EQ(waits, 5) << "20 MiB, 20 + 12 MiB, three numbers, 40 MiB, and the meeting";
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(torch::equal(tensor, torch::ones_like(tensor)));
  });
}

/// Two branches, of which each rank may use another.
struct Branches : torch::nn::Module {
  Branches() {
    register_module("first", first);
    register_module("second", second);
    register_module("never", never);
  }
  torch::nn::Linear first{3, 1};
  torch::nn::Linear second{3, 1};
  torch::nn::Linear never{3, 1};
};

TEST(Ddp, TakesZeroForAParameterThatOneRankDidNotUseAndSkipsOneThatNobodyUsed) {
  run_ranks(2, [&](RankThread& rank) {
    Branches model;
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : model.parameters()) parameter.fill_(1);
    }
    Ddp ddp = make_ddp(model, rank);
    for (int step = 0; step < 3; ++step) {
      ddp.zero_gradients();
      const torch::Tensor input = torch::full({1, 3}, 2.0);
      const torch::Tensor loss = (rank.rank == 0 ? model.first : model.second)(input).sum();
      ddp.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(ddp.finish_gradients().has_value());
      EXPECT_TRUE(torch::equal(model.first->weight.grad(), torch::ones({1, 3}))) << "rank " << rank.rank;
      EXPECT_TRUE(torch::equal(model.second->weight.grad(), torch::ones({1, 3}))) << "rank " << rank.rank;
      EXPECT_FALSE(model.never->weight.grad().defined());
    }
  });
}

/// Returns its input. Its backward gives a gradient or, where it is silent, none.
struct MaybeSilent final : torch::autograd::Function<MaybeSilent> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input, bool is_silent) {
    context->saved_data["is_silent"] = is_silent;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const bool is_silent = context->saved_data["is_silent"].toBool();
    return {is_silent ? torch::Tensor{} : gradients[0], torch::Tensor{}};
  }
};

TEST(Ddp, TakesAGradientThatAFunctionLeavesUndefinedForThatOfAParameterThatWasNotUsed) {
  run_ranks(2, [&](RankThread& rank) {
    Branches model;
    Ddp ddp = make_ddp(model, rank);
    for (int step = 0; step < 3; ++step) {
      ddp.zero_gradients();
      const torch::Tensor loss = model.first->weight.sum() +
                                 MaybeSilent::apply(model.second->weight, rank.rank == 0).sum() +
                                 MaybeSilent::apply(model.never->weight, true).sum();
      ddp.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(ddp.finish_gradients().has_value());
      EXPECT_TRUE(torch::equal(model.first->weight.grad(), torch::ones({1, 3}))) << "rank " << rank.rank;
      EXPECT_TRUE(torch::equal(model.second->weight.grad(), torch::full({1, 3}, 0.5))) << "rank " << rank.rank;
      EXPECT_FALSE(model.never->weight.grad().defined());
    }
  });
}

TEST(Ddp, ExchangesOnlyTheSumOfAStepsBatchesAndThatOfAParameterWhichOnlyAnEarlierBatchUsed) {
  run_ranks(2, [&](RankThread& rank) {
    Branches model;
    Ddp ddp = make_ddp(model, rank);
    for (int step = 0; step < 3; ++step) {
      ddp.zero_gradients();
      const auto add = [&](torch::nn::Linear& branch, double input, bool is_last_batch) {
        const torch::Tensor loss = branch(torch::full({1, 3}, input)).sum();
        ddp.begin_backward(is_last_batch);
        loss.backward();
      };
      add(model.first, 2.0, false);
      if (rank.rank == 0) add(model.second, 8.0, false);
      EXPECT_TRUE(torch::equal(model.first->weight.grad(), torch::full({1, 3}, 2.0))) << "not exchanged yet";
      add(model.first, 4.0 * static_cast<double>(rank.rank), true);
      ASSERT_TRUE(ddp.finish_gradients().has_value());
      EXPECT_TRUE(torch::equal(model.first->weight.grad(), torch::full({1, 3}, 4.0))) << "rank " << rank.rank;
      EXPECT_TRUE(torch::equal(model.second->weight.grad(), torch::full({1, 3}, 4.0))) << "rank " << rank.rank;
      EXPECT_FALSE(model.never->weight.grad().defined());
    }
  });
}

TEST(Ddp, RefusesASecondBackwardPassOfAStepsFirstBatch) {
  run_ranks(1, [&](RankThread& rank) {
    const auto model = std::make_shared<torch::nn::LinearImpl>(4, 1);
    Ddp ddp = make_ddp(*model, rank);
    ddp.zero_gradients();
    model->forward(torch::ones({1, 4})).sum().backward();  // in training_step
    const torch::Tensor loss = model->forward(torch::ones({1, 4})).sum();
    ddp.begin_backward(/*is_last_batch=*/false);
    EXPECT_THROW(loss.backward(), std::exception);
  });
}

TEST(Ddp, GivesAllRanksTheBuffersOfRankZeroAfterEachStep) {
  std::vector<torch::Tensor> means(2);
  std::vector<std::shared_ptr<TinyModel>> models{make_tiny_model(0), make_tiny_model(0)};
  run_ranks(2, [&](RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    Ddp ddp = make_ddp(model, rank);
    train_step(ddp, model, make_tiny_batch(0, rank.rank));
    means[static_cast<std::size_t>(rank.rank)] = model.norm->running_mean.clone();
  });
  const auto alone = make_tiny_model(0);
  alone->forward(make_tiny_batch(0, 0).images);
  EXPECT_TRUE(torch::equal(means[0], alone->norm->running_mean));
  EXPECT_TRUE(torch::equal(means[1], means[0]));
}

TEST(Ddp, GivesGradientsTheMemoryFormatOfTheirParameters) {
  // Fused optimizers walk parameter, gradient and moments by address.
  std::vector<torch::Tensor> gradients;
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    std::vector<torch::Tensor> of_rank(2);
    std::vector<torch::nn::Conv2d> models;
    for (int rank = 0; rank < 2; ++rank) {
      torch::manual_seed(3);
      models.emplace_back(torch::nn::Conv2dOptions(3, 5, 2));
      models.back()->weight.set_data(models.back()->weight.detach().contiguous(format));
    }
    run_ranks(2, [&](RankThread& rank) {
      torch::nn::Conv2d& model = models[static_cast<std::size_t>(rank.rank)];
      Ddp ddp = make_ddp(*model, rank);
      ASSERT_TRUE(ddp.synchronize_model().has_value());
      ddp.zero_gradients();
      const torch::Tensor loss = model(torch::arange(96).to(torch::kFloat).view({2, 3, 4, 4}) * (rank.rank + 1)).sum();
      ddp.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(ddp.finish_gradients().has_value());
      EXPECT_EQ(model->weight.grad().strides(), model->weight.strides());
      of_rank[static_cast<std::size_t>(rank.rank)] = model->weight.grad().clone();
    });
    EXPECT_TRUE(torch::equal(of_rank[0], of_rank[1]));
    gradients.push_back(of_rank[0]);
  }
  EXPECT_TRUE(torch::allclose(gradients[0], gradients[1]));
}

TEST(Ddp, SaysSoWhenAPeerIsLost) {
  run_ranks(2, [&](RankThread& rank) {
    const auto model = std::make_shared<torch::nn::LinearImpl>(4, 1);
    Ddp ddp = make_ddp(*model, rank);
    if (rank.rank == 1) return;  // Its connections close with its group.
    ddp.zero_gradients();
    const torch::Tensor loss = model->forward(torch::ones({1, 4})).sum();
    ddp.begin_backward(/*is_last_batch=*/true);
    loss.backward();
    const auto done = ddp.finish_gradients();
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
  });
}

TEST(Ddp, RefusesASecondBackwardPassInOneStep) {
  run_ranks(1, [&](RankThread& rank) {
    const auto model = std::make_shared<torch::nn::LinearImpl>(4, 1);
    Ddp ddp = make_ddp(*model, rank);
    ddp.zero_gradients();
    model->forward(torch::ones({1, 4})).sum().backward();
    EXPECT_THROW(model->forward(torch::ones({1, 4})).sum().backward(), std::exception);
  });
}

std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Ddp, RefusesParametersWithGapsAndSparseGradients) {
  run_ranks(1, [&](RankThread& rank) {
    const torch::Tensor with_gaps = torch::ones({4, 4}).slice(1, 0, 2).requires_grad_();
    EXPECT_THAT(refusal_of([&] {
                  Ddp{{{"w", with_gaps}}, {}, rank.process_group, *rank.communicator, plain_wait, {}};
                }),
                testing::HasSubstr("a parameter is a view with gaps or overlaps"));
    torch::nn::Embedding words{torch::nn::EmbeddingOptions(4, 2).sparse(true)};
    Ddp ddp = make_ddp(*words, rank);
    ddp.zero_gradients();
    ddp.begin_backward(/*is_last_batch=*/true);
    EXPECT_THAT(refusal_of([&] {
                  words(torch::tensor({1, 2}, torch::kLong)).sum().backward();
                }),
                testing::HasSubstr("sparse gradients are not reduced: give the embedding sparse(false)"));
  });
}

}  // namespace
}  // namespace trainyard::strategy
