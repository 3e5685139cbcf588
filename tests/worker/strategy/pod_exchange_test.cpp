// Bagua's algorithms among the first ranks of pods, each step of them against a simulation of all ranks in one place.
#include "worker/strategy/pod_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/pod_threads.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/q_adam.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::strategy {
namespace {

namespace gradients_by_pod {

using fakes::make_pods;
using fakes::plain_wait;
using fakes::RankThread;
using fakes::run_ranks;

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t elements = 35;
constexpr std::int64_t few_elements = 6;
constexpr std::int64_t steps = 3;

std::int64_t ranks_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

torch::Tensor random(std::int64_t seed, std::int64_t numbers = elements) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return torch::randn({numbers}, generator);
}

torch::Tensor make_gradient(std::int64_t step, std::int64_t rank) {
  return random(100 * step + rank);
}

torch::Tensor through_bytes(const torch::Tensor& row) {
  return decompress(compress(row.view({1, -1})), row.numel()).flatten();
}

/// The mean of ByteGrad over the pods, of which `numbers` has one row each, or the only row as it is.
torch::Tensor byte_mean(const std::vector<torch::Tensor>& numbers) {
  const auto pods = static_cast<std::int64_t>(numbers.size());
  if (pods == 1) return numbers[0];
  const std::int64_t count = numbers[0].numel(), chunk = (count + pods - 1) / pods;
  std::vector<torch::Tensor> means;
  for (std::int64_t part = 0; part < pods; ++part) {
    std::vector<torch::Tensor> rows;
    for (const torch::Tensor& own : numbers)
      rows.push_back(through_bytes(
          torch::cat({own, torch::zeros({pods * chunk - count})}).slice(0, part * chunk, (part + 1) * chunk)));
    means.push_back(through_bytes(torch::stack(rows).mean(0)));
  }
  return torch::cat(means).slice(0, 0, count);
}

/// By pod: the sum of what its ranks have, times `factor`.
std::vector<torch::Tensor> sums_of_pods(const Sizes& sizes, const std::vector<torch::Tensor>& of_ranks, double factor) {
  std::vector<torch::Tensor> sums;
  for (std::size_t rank = 0; const std::int64_t size : sizes) {
    torch::Tensor sum = of_ranks[rank] * factor;
    for (std::int64_t of_pod = 1; of_pod < size; ++of_pod)
      sum = sum + of_ranks[rank + static_cast<std::size_t>(of_pod)] * factor;
    rank += static_cast<std::size_t>(size);
    sums.push_back(sum);
  }
  return sums;
}

struct Case {
  Sizes sizes;
  bool is_exact;  // no more than two numbers are added up by one collective, so that their order is nothing
};

const std::vector<Case> cases{{{2, 2}, true},  {{1, 2}, true},     {{2}, true}, {{2, 2, 2}, false},
                              {{1, 3}, false}, {{3, 1, 2}, false}, {{4}, false}};

struct Exchanged {
  std::vector<torch::Tensor> of_all;   // the gradient of a parameter that all ranks use, after each step
  std::vector<torch::Tensor> of_some;  // of one that ranks with an odd number do not use
  bool has_unused = false;             // a parameter that no rank uses has a gradient
  std::uint64_t bytes = 0;
};

/// The results of each rank. Each parameter is a bucket.
std::vector<Exchanged> exchange_all(const Sizes& sizes, const MakeExchange& make,
                                    torch::ScalarType type = torch::kFloat) {
  std::vector<Exchanged> all(static_cast<std::size_t>(ranks_of(sizes)));
  run_ranks(ranks_of(sizes), [&](RankThread& rank) {
    const auto options = torch::dtype(type).requires_grad(true);
    std::vector<torch::Tensor> parameters{torch::zeros({elements}, options), torch::zeros({few_elements}, options),
                                          torch::zeros({2}, options)};
    GradientBuckets buckets{
        parameters, rank.process_group, {.first_bytes = 1, .bytes = 1}, by_pod(make, make_pods(rank, sizes))};
    Exchanged& done = all[static_cast<std::size_t>(rank.rank)];
    for (std::int64_t step = 0; step < steps; ++step) {
      buckets.zero();
      torch::Tensor loss = (parameters[0] * make_gradient(step, rank.rank)).sum();
      if (rank.rank % 2 == 0) loss = loss + (parameters[1] * random(rank.rank, few_elements)).sum();
      loss.backward();
      ASSERT_TRUE(buckets.finish(plain_wait, plain_wait));
      done.of_all.push_back(parameters[0].grad().clone());
      done.of_some.push_back(parameters[1].grad().clone());
      done.has_unused = done.has_unused || parameters[2].grad().defined();
    }
    done.bytes = buckets.exchange().exchanged_bytes();
  });
  return all;
}

std::vector<torch::Tensor> gradients_of_ranks(std::int64_t ranks, std::int64_t step) {
  std::vector<torch::Tensor> gradients;
  for (std::int64_t rank = 0; rank < ranks; ++rank) gradients.push_back(make_gradient(step, rank));
  return gradients;
}

std::vector<torch::Tensor> few_gradients_of_ranks(std::int64_t ranks) {
  std::vector<torch::Tensor> gradients;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    gradients.push_back(rank % 2 == 0 ? random(rank, few_elements) : torch::zeros({few_elements}));
  return gradients;
}

/// The bytes of the three buckets with one number for each parameter.
constexpr std::uint64_t bucket_bytes = 4 * (elements + few_elements + 2 + 3);

/// The messages of whole buckets that the rank gives to its pod's process group in a step.
std::uint64_t messages_in_pod(const Sizes& sizes, std::int64_t size) {
  if (size == 1) return 0;
  return sizes.size() == 1 ? 1 : 2;
}

TEST(ByPod, GivesAllRanksTheMeanOfAllGradients) {
  for (const auto& [sizes, is_exact] : cases) {
    SCOPED_TRACE(fmt::format("pods of {} ranks", fmt::join(sizes, ", ")));
    const std::int64_t ranks = ranks_of(sizes);
    const auto all = exchange_all(sizes, make_all_reduce);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto gradients = gradients_of_ranks(ranks, static_cast<std::int64_t>(step));
      const torch::Tensor mean = torch::stack(gradients).mean(0);
      const torch::Tensor mean_of_some = torch::stack(few_gradients_of_ranks(ranks)).mean(0);
      for (const Exchanged& rank : all) {
        // The order of the additions differs.
        EXPECT_TRUE(torch::allclose(rank.of_all[step], mean, 0.0, 1e-6));
        EXPECT_TRUE(torch::allclose(rank.of_some[step], mean_of_some, 0.0, 1e-6));
        EXPECT_TRUE(torch::equal(rank.of_all[step], all[0].of_all[step]));
        EXPECT_FALSE(rank.has_unused);
      }
    }
    for (std::size_t rank = 0, pod = 0; pod < sizes.size(); ++pod) {
      for (std::int64_t of_pod = 0; of_pod < sizes[pod]; ++of_pod, ++rank) {
        const bool is_first = of_pod == 0 && sizes.size() > 1;
        EXPECT_EQ(all[rank].bytes, steps * bucket_bytes * (messages_in_pod(sizes, sizes[pod]) + (is_first ? 1 : 0)));
      }
    }
  }
}

TEST(ByPod, HasTheFirstRanksSendTheMeansOfTheirPodsAsBytes) {
  for (const auto& [sizes, is_exact] : cases) {
    SCOPED_TRACE(fmt::format("pods of {} ranks", fmt::join(sizes, ", ")));
    const std::int64_t ranks = ranks_of(sizes);
    const double factor = static_cast<double>(sizes.size()) / static_cast<double>(ranks);
    const auto all = exchange_all(sizes, make_byte_grad);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto expected =
          byte_mean(sums_of_pods(sizes, gradients_of_ranks(ranks, static_cast<std::int64_t>(step)), factor));
      const auto of_some = byte_mean(sums_of_pods(sizes, few_gradients_of_ranks(ranks), factor));
      for (const Exchanged& rank : all) {
        // The order of more than two additions may change last bits, and with them a byte of a number between two
        // bytes.
        EXPECT_TRUE(is_exact ? torch::equal(rank.of_all[step], expected)
                             : torch::allclose(rank.of_all[step], expected, 0.0, 0.03));
        EXPECT_TRUE(is_exact ? torch::equal(rank.of_some[step], of_some)
                             : torch::allclose(rank.of_some[step], of_some, 0.0, 0.03));
        EXPECT_TRUE(torch::equal(rank.of_all[step], all[0].of_all[step]));
        EXPECT_FALSE(rank.has_unused);
      }
    }
    const auto pods = static_cast<std::int64_t>(sizes.size());
    std::int64_t sent = 3 * 4;  // which parameters were used
    for (const std::int64_t numbers : {elements, few_elements, std::int64_t{2}})
      sent += (pods + 1) * compressed_bytes((numbers + pods - 1) / pods);
    const std::uint64_t of_pods = pods == 1 ? 0 : static_cast<std::uint64_t>(sent);
    EXPECT_EQ(all[0].bytes, steps * (bucket_bytes * messages_in_pod(sizes, sizes[0]) + of_pods));
    EXPECT_EQ(all.back().bytes, steps * bucket_bytes * messages_in_pod(sizes, sizes.back()));
  }
}

TEST(ByPod, ExchangesGradientsOf16Bits) {
  const auto all = exchange_all({2, 2}, make_byte_grad, torch::kBFloat16);
  const torch::Tensor mean = torch::stack(gradients_of_ranks(4, 0)).mean(0);
  for (const Exchanged& rank : all) EXPECT_TRUE(torch::allclose(rank.of_all[0].to(torch::kFloat), mean, 0.0, 0.05));
}

const OptimizerSpec adam{.name = "adam", .lr = 0.01, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6};
constexpr std::int64_t warmup_steps = 3, adam_steps = 7;

/// The parameter after each step of QAdam.
std::vector<torch::Tensor> train_by_qadam(RankThread& rank, const Sizes& sizes) {
  dist::Group group{.rank = rank.rank,
                    .world_size = rank.world_size,
                    .store = {},
                    .process_group = rank.process_group,
                    .pods = make_pods(rank, sizes),
                    .communicator = std::move(rank.communicator),
                    .checkpoint_communicator = {}};
  const NamedTensors parameters{{"p", make_gradient(99, 99).requires_grad_()}};
  const auto sync = make_gradient_sync(parameters, {}, group, plain_wait, {},
                                       {.name = api::StrategyName::bagua,
                                        .algorithm = api::BaguaAlgorithm::qadam,
                                        .qadam_warmup_steps = warmup_steps,
                                        .hierarchical = true});
  const auto optimizer = sync->adapt(train::make_optimizer(adam, parameters));
  std::vector<torch::Tensor> after;
  for (std::int64_t step = 0; step < adam_steps; ++step) {
    sync->zero_gradients();
    sync->begin_backward(/*is_last_batch=*/true);
    (parameters[0].second * make_gradient(step, rank.rank)).sum().backward();
    EXPECT_TRUE(sync->finish_gradients());
    optimizer->step();
    after.push_back(parameters[0].second.detach().clone());
  }
  EXPECT_TRUE(torch::equal(sync->state().at(0).second, torch::full({1}, adam_steps, torch::kInt64)));
  return after;
}

/// The parameter of all ranks after each step, by the formulas in float32.
std::vector<torch::Tensor> simulate_qadam(const Sizes& sizes) {
  const std::int64_t ranks = ranks_of(sizes);
  torch::Tensor p = make_gradient(99, 99), m = torch::zeros_like(p), v = torch::zeros_like(p);
  std::vector<torch::Tensor> found;
  for (std::int64_t step = 0; step < adam_steps; ++step) {
    const auto gradients = gradients_of_ranks(ranks, step);
    if (step < warmup_steps) {
      const torch::Tensor g = torch::stack(gradients).mean(0) + adam.weight_decay * p;
      m = adam.beta1 * m + (1 - adam.beta1) * g;
      v = adam.beta2 * v + (1 - adam.beta2) * g * g;
    } else {
      std::vector<torch::Tensor> of_pods;
      for (const torch::Tensor& g :
           sums_of_pods(sizes, gradients, static_cast<double>(sizes.size()) / static_cast<double>(ranks)))
        of_pods.push_back(adam.beta1 * m + (1 - adam.beta1) * (g + adam.weight_decay * p));
      m = byte_mean(of_pods);
    }
    const auto t = static_cast<double>(step + 1);
    const torch::Tensor denominator = v.sqrt() / std::sqrt(1 - std::pow(adam.beta2, t)) + adam.eps;
    p = p - adam.lr / (1 - std::pow(adam.beta1, t)) * m / denominator;
    found.push_back(p);
  }
  return found;
}

TEST(QAdamByPod, IsItsFormulaOverTheMeansOfPods) {
  for (const auto& [sizes, is_exact] : cases) {
    SCOPED_TRACE(fmt::format("pods of {} ranks", fmt::join(sizes, ", ")));
    std::vector<std::vector<torch::Tensor>> trained(static_cast<std::size_t>(ranks_of(sizes)));
    run_ranks(ranks_of(sizes),
              [&](RankThread& rank) { trained[static_cast<std::size_t>(rank.rank)] = train_by_qadam(rank, sizes); });
    const std::vector<torch::Tensor> expected = simulate_qadam(sizes);
    for (std::size_t step = 0; step < expected.size(); ++step) {
      // A number between two bytes may be rounded otherwise, and then differs by a 255th of its chunk's range. One pod
      // sends no bytes.
      const double tolerance = step < warmup_steps || sizes.size() == 1 ? 1e-5 : 2e-3;
      EXPECT_TRUE(torch::allclose(trained[0][step], expected[step], 0.0, tolerance))
          << "step " << step << ", " << (trained[0][step] - expected[step]).abs().max().item<float>();
      for (const auto& other : trained) EXPECT_TRUE(torch::equal(other[step], trained[0][step]));
    }
  }
}

TEST(MakeGradientSync, ExchangesByPodWhereTheGroupHasPods) {
  for (const auto algorithm : {api::BaguaAlgorithm::gradient_allreduce, api::BaguaAlgorithm::decentralized}) {
    run_ranks(4, [&](RankThread& rank) {
      dist::Group group{.rank = rank.rank,
                        .world_size = 4,
                        .store = {},
                        .process_group = rank.process_group,
                        .pods = make_pods(rank, {2, 2}),
                        .communicator = std::move(rank.communicator),
                        .checkpoint_communicator = {}};
      const torch::Tensor weight = torch::ones({3}, torch::requires_grad());
      const auto sync =
          make_gradient_sync({{"weight", weight}}, {}, group, plain_wait, {},
                             {.name = api::StrategyName::bagua, .algorithm = algorithm, .hierarchical = true});
      sync->zero_gradients();
      sync->begin_backward(/*is_last_batch=*/true);
      weight.sum().backward();
      ASSERT_TRUE(sync->finish_gradients());
      const std::uint64_t message = algorithm == api::BaguaAlgorithm::decentralized ? 12 : 16;
      EXPECT_EQ(sync->exchanged_bytes(), message * (rank.rank % 2 == 0 ? 3 : 2));
    });
  }
}

}  // namespace gradients_by_pod
}  // namespace
}  // namespace trainyard::strategy
