#include "worker/strategy/sharded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/tiny_model.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;
using testing::HasSubstr;

Sharded make_sharded(const torch::nn::Module& module, RankThread& rank,
                     const DdpOptions& options = {.limits = small_limits}) {
  return Sharded{parameters_of(module), buffers_of(module), rank.process_group,
                 *rank.communicator,    plain_wait,         options};
}

/// Plain SGD on this rank's rows.
void descend_rows(const Sharded& sharded) {
  const torch::NoGradGuard no_grad;
  for (const ParameterShard& shard : sharded.shards()) {
    if (shard.rows.grad().defined()) torch::Tensor{shard.rows}.sub_(shard.rows.grad(), tiny_lr);
  }
}

/// As train_by_ddp().
std::vector<torch::Tensor> train_by_sharded(std::int64_t world_size, std::int64_t steps,
                                            const DdpOptions& options = {.limits = small_limits}) {
  std::vector<std::shared_ptr<TinyModel>> models;
  for (std::int64_t rank = 0; rank < world_size; ++rank) models.push_back(make_tiny_model(rank));
  std::vector<torch::Tensor> states(static_cast<std::size_t>(world_size));
  run_ranks(world_size, [&](RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    Sharded sharded = make_sharded(model, rank, options);
    ASSERT_TRUE(sharded.synchronize_model().has_value());
    for (std::int64_t step = 0; step < steps; ++step) {
      const TinyBatch batch = make_tiny_batch(step, rank.rank);
      sharded.zero_gradients();
      const torch::Tensor loss = [&] {
        const ForwardScope scope{sharded};
        return loss_of(model, batch);
      }();
      sharded.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(sharded.finish_gradients().has_value());
      for (const torch::Tensor& parameter : model.parameters()) EXPECT_FALSE(parameter.grad().defined());
      descend_rows(sharded);
      ASSERT_TRUE(sharded.after_update().has_value());
    }
    states[static_cast<std::size_t>(rank.rank)] = flat_state(model);
  });
  return states;
}

TEST(Sharded, TrainsToTheParametersOfDdp) {
  for (const std::int64_t world_size : {2, 3, 4}) {
    const auto ours = train_by_sharded(world_size, 6);
    const torch::Tensor difference = (ours[0] - train_by_ddp(world_size, 6)[0]).abs().max();
    EXPECT_LT(difference.item<float>(), 1e-5F) << world_size << " ranks";
    for (const torch::Tensor& state : ours) EXPECT_TRUE(torch::equal(state, ours[0])) << world_size << " ranks";
  }
}

TEST(Sharded, TrainsToTheBitsOfDdpOnTwoRanks) {
  EXPECT_TRUE(torch::equal(train_by_sharded(2, 6)[0], train_by_ddp(2, 6)[0]));
}

TEST(Sharded, TrainsToTheParametersOfDdpWithBatchNormalisationOverAllRanks) {
  const DdpOptions options{.limits = small_limits, .synchronizes_batch_norm = true};
  const torch::Tensor difference = (train_by_sharded(3, 4, options)[0] - train_by_ddp(3, 4, options)[0]).abs().max();
  EXPECT_LT(difference.item<float>(), 1e-5F);
}

/// Parameters of unusual shapes and layouts.
struct Shapes : torch::nn::Module {
  Shapes() {
    register_parameter("scalar", scalar);
    register_parameter("row", row);
    register_parameter("none", none);
    register_parameter("image", image);
    register_parameter("half", half);
  }
  torch::Tensor loss(double factor) {
    return factor * (scalar * row.sum() + image.square().sum() + half.to(torch::kFloat).sum()) + none.sum();
  }
  torch::Tensor scalar = torch::full({}, 2.0);
  torch::Tensor row = torch::ones({1, 7});
  torch::Tensor none = torch::ones({0, 3});
  torch::Tensor image = torch::arange(3 * 4 * 2 * 2)
                            .to(torch::kFloat)
                            .reshape({3, 4, 2, 2})
                            .contiguous(torch::MemoryFormat::ChannelsLast);
  torch::Tensor half = torch::ones({5}, torch::kHalf);
};

TEST(Sharded, GivesRowsOfAnyShapeLayoutAndTypeTheMeanAndAllRanksTheRows) {
  for (const std::int64_t world_size : {2, 3}) {
    run_ranks(world_size, [&](RankThread& rank) {
      Shapes model;
      Sharded sharded = make_sharded(model, rank);
      sharded.zero_gradients();
      const torch::Tensor loss = model.loss(static_cast<double>(rank.rank));
      sharded.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(sharded.finish_gradients().has_value());
      const double mean = static_cast<double>(world_size - 1) / 2;
      for (const ParameterShard& shard : sharded.shards()) {
        ASSERT_TRUE(shard.rows.grad().defined());
        EXPECT_EQ(shard.rows.grad().sizes(), shard.rows.sizes());
        EXPECT_EQ(shard.rows.grad().strides(), shard.rows.strides()) << "fused optimizers walk both by address";
        EXPECT_EQ(shard.rows.grad().scalar_type(), shard.parameter.scalar_type());
      }
      const auto& shards = sharded.shards();
      EXPECT_TRUE(torch::allclose(shards[0].rows.grad(), torch::full_like(shards[0].rows, 7 * mean)));
      EXPECT_TRUE(torch::allclose(shards[3].rows.grad(), 2 * mean * shards[3].rows));
      descend_rows(sharded);
      ASSERT_TRUE(sharded.after_update().has_value());
      const Shapes before;
      EXPECT_NEAR(model.scalar.item<double>(), 2.0 - tiny_lr * 7 * mean, 1e-5);
      EXPECT_TRUE(torch::allclose(model.image, before.image * (1 - tiny_lr * 2 * mean)));
      EXPECT_TRUE(torch::allclose(model.half, before.half - tiny_lr * mean, 1e-2));
    });
  }
}

/// Three lines, of which each rank may use others.
struct Lines : torch::nn::Module {
  Lines() {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
  }
  torch::nn::Linear first{3, 2}, second{3, 2}, third{3, 2};
};

TEST(Sharded, TakesZeroForAParameterThatOneRankDidNotUseAndSkipsOneThatNobodyUsed) {
  run_ranks(2, [&](RankThread& rank) {
    Lines model;
    Sharded sharded = make_sharded(model, rank);
    for (int step = 0; step < 3; ++step) {
      sharded.zero_gradients();
      torch::Tensor loss = (rank.rank == 0 ? model.first : model.second)(torch::full({1, 3}, 2.0)).sum();
      if (step == 0) loss = loss + model.third(torch::ones({1, 3})).sum();
      sharded.begin_backward(/*is_last_batch=*/true);
      loss.backward();
      ASSERT_TRUE(sharded.finish_gradients().has_value());
      for (const std::size_t weight : {0, 2}) {
        const torch::Tensor& rows = sharded.shards()[weight].rows;
        EXPECT_TRUE(torch::equal(rows.grad(), torch::ones_like(rows))) << "rank " << rank.rank;
      }
      EXPECT_EQ(sharded.shards()[4].rows.grad().defined(), step == 0) << "no gradient is left of an earlier step";
    }
  });
}

TEST(Sharded, SendsWhatTheBatchesOfAStepAddUp) {
  run_ranks(2, [&](RankThread& rank) {
    Lines model;
    Sharded sharded = make_sharded(model, rank);
    sharded.zero_gradients();
    sharded.begin_backward(/*is_last_batch=*/false);
    (model.first(torch::ones({1, 3})).sum() + model.second(torch::ones({1, 3})).sum()).backward();
    EXPECT_FALSE(sharded.shards()[0].rows.grad().defined());
    sharded.begin_backward(/*is_last_batch=*/true);
    model.first(torch::ones({1, 3})).sum().backward();  // Only the first batch used the second line.
    ASSERT_TRUE(sharded.finish_gradients().has_value());
    const torch::Tensor& first = sharded.shards()[0].rows;
    const torch::Tensor& second = sharded.shards()[2].rows;
    EXPECT_TRUE(torch::equal(first.grad(), torch::full_like(first, 2)));
    EXPECT_TRUE(torch::equal(second.grad(), torch::ones_like(second)));
  });
}

TEST(Sharded, AgreesOnNormsAndInfinities) {
  run_ranks(3, [&](RankThread& rank) {
    Lines model;
    Sharded sharded = make_sharded(model, rank);
    const double own = std::vector{2.0, 3.0, 6.0}[static_cast<std::size_t>(rank.rank)];
    const auto norm = sharded.norm_of_all_gradients(torch::full({}, own, torch::kFloat));
    ASSERT_TRUE(norm.has_value());
    EXPECT_DOUBLE_EQ(norm->item<double>(), 7.0);
    const torch::Tensor found = torch::full({}, rank.rank == 1 ? 1.0 : 0.0);
    ASSERT_TRUE(sharded.max_over_ranks(found).has_value());
    EXPECT_EQ(found.item<double>(), 1.0);
  });
}

TEST(Sharded, RefusesAParameterWhoseRowsHaveGapsAndASecondBackwardPass) {
  run_ranks(1, [&](RankThread& rank) {
    torch::nn::Module transposed;
    transposed.register_parameter("weight", torch::ones({3, 4}).t());
    try {
      make_sharded(transposed, rank);
      ADD_FAILURE() << "optimizers would take the wrong numbers";
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("cannot cut the parameter weight, whose rows do not lie one after the other"));
    }
    Lines model;
    Sharded sharded = make_sharded(model, rank);
    sharded.zero_gradients();
    model.first(torch::ones({1, 3})).sum().backward();
    EXPECT_THROW(model.first(torch::ones({1, 3})).sum().backward(), std::exception);
  });
}

TEST(Sharded, RefusesSparseGradientsAsTheModelsFault) {
  run_ranks(2, [&](RankThread& rank) {
    torch::nn::Module model;
    const torch::Tensor table = model.register_parameter("table", torch::ones({4, 2}));
    Sharded sharded = make_sharded(model, rank);
    sharded.zero_gradients();
    const torch::Tensor loss =
        torch::embedding(table, torch::tensor({1, 2}), /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, true).sum();
    EXPECT_THROW(loss.backward(), std::exception);
  });
}

/// The error with which rank 0 ends `exchange` when rank 1 is gone.
Error error_without_peer(const std::function<Result<void>(Sharded&, Lines&)>& exchange) {
  Error error;
  run_ranks(2, [&](RankThread& rank) {
    Lines model;
    Sharded sharded = make_sharded(model, rank);
    if (rank.rank == 1) return;  // Its connections close with its group.
    const auto done = exchange(sharded, model);
    ASSERT_FALSE(done.has_value());
    error = done.error();
  });
  return error;
}

TEST(Sharded, SaysSoWhenAPeerIsLostInAnyExchange) {
  const Error in_backward = error_without_peer([](Sharded& sharded, Lines& model) {
    sharded.zero_gradients();
    const torch::Tensor input = torch::ones({1, 3});
    const torch::Tensor loss = (model.first(input) + model.second(input) + model.third(input)).sum();
    sharded.begin_backward(/*is_last_batch=*/true);
    loss.backward();
    return sharded.finish_gradients();
  });
  EXPECT_EQ(in_backward.kind, ErrorKind::unavailable);
  EXPECT_THAT(in_backward.message, testing::AnyOf(HasSubstr("the gradients' exchange"), HasSubstr("sending rows")));
  const Error in_gather = error_without_peer([](Sharded& sharded, Lines&) { return sharded.after_update(); });
  EXPECT_EQ(in_gather.kind, ErrorKind::unavailable);
  EXPECT_THAT(in_gather.message,
              testing::AnyOf(HasSubstr("the exchange of the parameters"), HasSubstr("sending rows")));
  const Error in_norm = error_without_peer(
      [](Sharded& sharded, Lines&) { return sharded.norm_of_all_gradients(torch::ones({})).map([](const auto&) {}); });
  EXPECT_EQ(in_norm.kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace trainyard::strategy
