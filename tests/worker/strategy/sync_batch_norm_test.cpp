#include "worker/strategy/sync_batch_norm.hpp"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;

constexpr std::int64_t channels = 3;

/// Batch normalisation of one batch, forward and backward.
struct Normalised {
  torch::Tensor output;
  torch::Tensor of_input;   // gradients
  torch::Tensor of_weight;  // like the next one
  torch::Tensor of_bias;
  torch::Tensor running_mean;
  torch::Tensor running_variance;
};

torch::nn::BatchNorm2d make_norm() {
  torch::nn::BatchNorm2d norm{channels};
  const torch::NoGradGuard no_grad;
  norm->weight.copy_(torch::tensor({0.5, 1.0, 2.0}));
  norm->bias.copy_(torch::tensor({1.0, 0.0, -1.0}));
  norm->to(torch::kDouble);
  return norm;
}

Normalised normalise(torch::nn::BatchNorm2d& norm, const torch::Tensor& batch, const torch::Tensor& factors) {
  const torch::Tensor input = batch.clone().requires_grad_();
  const torch::Tensor output = norm(input);
  (output * factors).sum().backward();
  return {.output = output.detach(),
          .of_input = input.grad(),
          .of_weight = norm->weight.grad(),
          .of_bias = norm->bias.grad(),
          .running_mean = norm->running_mean,
          .running_variance = norm->running_var};
}

bool is_close(const torch::Tensor& one, const torch::Tensor& other) {
  return torch::allclose(one, other, 1e-10, 1e-10);
}

TEST(SyncBatchNorm, IsBatchNormOfTheBatchesOfAllRanksTogether) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{4, 4}, {1, 5, 2}}) {
    auto generator = at::detail::createCPUGenerator(3);
    std::vector<torch::Tensor> batches, factors;
    for (const std::int64_t size : sizes) {
      batches.push_back(torch::randn({size, channels, 4, 5}, generator, torch::kDouble) * 3 + 100);
      factors.push_back(torch::randn({size, channels, 4, 5}, generator, torch::kDouble));
    }
    auto norm = make_norm();
    const Normalised whole = normalise(norm, torch::cat(batches), torch::cat(factors));
    std::vector<Normalised> parts(sizes.size());
    run_ranks(static_cast<std::int64_t>(sizes.size()), [&](RankThread& rank) {
      const auto index = static_cast<std::size_t>(rank.rank);
      SyncBatchNorm group{rank.process_group, plain_wait};
      group.activate();
      auto own = make_norm();
      parts[index] = normalise(own, batches[index], factors[index]);
      EXPECT_EQ(group.exchanged_bytes(), 8U * (2 * channels + 1) + 8U * 2 * channels);
    });
    std::vector<torch::Tensor> outputs, of_inputs;
    torch::Tensor of_weight = torch::zeros({channels}, torch::kDouble), of_bias = of_weight.clone();
    for (const Normalised& part : parts) {
      outputs.push_back(part.output);
      of_inputs.push_back(part.of_input);
      of_weight += part.of_weight;
      of_bias += part.of_bias;
      EXPECT_TRUE(is_close(part.running_mean, whole.running_mean));
      EXPECT_TRUE(is_close(part.running_variance, whole.running_variance));
      EXPECT_TRUE(torch::equal(part.running_variance, parts[0].running_variance));
    }
    EXPECT_TRUE(is_close(torch::cat(outputs), whole.output));
    EXPECT_TRUE(is_close(torch::cat(of_inputs), whole.of_input));
    EXPECT_TRUE(is_close(of_weight, whole.of_weight));
    EXPECT_TRUE(is_close(of_bias, whole.of_bias));
  }
}

TEST(SyncBatchNorm, TakesInputsOfSixteenBitsAndLayersWithoutWeightsOrStatistics) {
  run_ranks(2, [](RankThread& rank) {
    SyncBatchNorm group{rank.process_group, plain_wait};
    group.activate();
    torch::nn::BatchNorm1d norm{torch::nn::BatchNorm1dOptions(2).affine(false).track_running_stats(false)};
    const torch::Tensor input = torch::full({2, 2}, rank.rank == 0 ? 1.0 : 3.0, torch::kBFloat16).requires_grad_();
    const torch::Tensor output = norm(input);
    output.sum().backward();
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    EXPECT_NEAR(output[0][0].item<float>(), rank.rank == 0 ? -1.0F : 1.0F, 0.01F);
    EXPECT_EQ(input.grad().abs().max().item<float>(), 0.0F);
  });
}

TEST(SyncBatchNorm, LeavesOtherThreadsAndEvaluationToTorch) {
  const torch::Tensor batch = torch::randn({4, channels, 2, 2}, torch::kDouble);
  auto usual = make_norm();
  const torch::Tensor expected = usual(batch);
  usual->eval();
  const torch::Tensor evaluated = usual(batch);
  run_ranks(2, [&](RankThread& rank) {
    SyncBatchNorm group{rank.process_group, plain_wait};
    if (rank.rank == 0) group.activate();
    SyncBatchNorm::deactivate();
    auto norm = make_norm();
    EXPECT_TRUE(torch::equal(norm(batch), expected));
    norm->eval();
    group.activate();
    EXPECT_TRUE(torch::equal(norm(batch), evaluated));
    EXPECT_EQ(group.exchanged_bytes(), 0U);
  });
}

TEST(SyncBatchNorm, LeavesInstanceNormalisationToEachRank) {
  const torch::Tensor batch = torch::randn({4, channels, 2, 2}, torch::kDouble);
  torch::nn::InstanceNorm2d norm{channels};
  const torch::Tensor expected = norm(batch);
  run_ranks(2, [&](RankThread& rank) {
    SyncBatchNorm group{rank.process_group, plain_wait};
    group.activate();
    EXPECT_TRUE(torch::equal(norm(rank.rank == 0 ? batch : batch * 3 + 1),
                             rank.rank == 0 ? expected : torch::nn::InstanceNorm2d{channels}(batch * 3 + 1)));
    EXPECT_EQ(group.exchanged_bytes(), 0U);
    std::ignore = make_norm()(batch);
    EXPECT_GT(group.exchanged_bytes(), 0U) << "it is active again";
  });
}

TEST(SyncBatchNorm, RefusesASecondDerivative) {
  run_ranks(2, [&](RankThread& rank) {
    SyncBatchNorm group{rank.process_group, plain_wait};
    group.activate();
    const torch::Tensor input = torch::ones({2, channels, 2, 2}, torch::kDouble).requires_grad_();
    const torch::Tensor output = make_norm()(input).sum();
    EXPECT_THROW(
        std::ignore = torch::autograd::grad({output}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true),
        c10::Error);
  });
}

TEST(Ddp, SendsNoBucketBetweenTheCollectivesOfSyncBatchNorm) {
  run_ranks(2, [](RankThread& rank) {
    auto norm = make_norm();
    torch::nn::Module module;
    module.register_module("norm", norm);
    // In the last bucket of the module, which a backward pass fills first.
    torch::Tensor extra = module.register_parameter("extra", torch::ones({}, torch::kDouble));
    Ddp ddp = make_ddp(module, rank, {.limits = {.first_bytes = 1, .bytes = 1}, .synchronizes_batch_norm = true});
    ddp.zero_gradients();
    const torch::Tensor output = [&] {
      const ForwardScope scope{ddp};
      const torch::Tensor normal = norm(torch::randn({2, channels, 2, 2}, torch::kDouble)).sum();
      return rank.rank == 0 ? normal : normal * extra;
    }();
    ddp.begin_backward(/*is_last_batch=*/true);
    output.backward();
    const auto done = ddp.finish_gradients();
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_TRUE(extra.grad().defined());
  });
}

TEST(SyncBatchNorm, ThrowsThatAPeerIsLost) {
  run_ranks(2, [](RankThread& rank) {
    SyncBatchNorm group{rank.process_group, plain_wait};
    group.activate();
    if (rank.rank == 1) return;
    auto norm = make_norm();
    try {
      std::ignore = norm(torch::ones({2, channels, 2, 2}, torch::kDouble));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ExchangeFailed& failed) {
      EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
      EXPECT_TRUE(failed.error().message.starts_with("the exchange of batch statistics: ")) << failed.error().message;
    }
  });
}

TEST(Ddp, TrainsWithSyncBatchNormAsOneRankDoesOnTheWholeBatch) {
  constexpr std::int64_t steps = 5;
  const auto states =
      train_by_ddp(2, steps, {.limits = small_limits, .broadcasts_buffers = false, .synchronizes_batch_norm = true});
  EXPECT_TRUE(torch::equal(states[0], states[1])) << "buffers too";
  const auto alone = make_tiny_model(0);
  for (std::int64_t step = 0; step < steps; ++step) {
    const TinyBatch first = make_tiny_batch(step, 0), second = make_tiny_batch(step, 1);
    alone->zero_grad();
    loss_of(*alone,
            {.images = torch::cat({first.images, second.images}), .labels = torch::cat({first.labels, second.labels})})
        .backward();
    descend(*alone, tiny_lr);
  }
  EXPECT_LT((states[0] - flat_state(*alone)).abs().max().item<float>(), 1e-5F);
}

}  // namespace
}  // namespace trainyard::strategy
