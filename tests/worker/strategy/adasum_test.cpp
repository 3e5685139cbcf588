#include "worker/strategy/adasum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/optimizer.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/told_optimizer.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;

TEST(Adasum, IsTheSumOfOrthogonalChangesAndTheMeanOfParallelOnes) {
  struct Case {
    std::vector<float> a, b, expected;
  };
  const Case cases[] = {
      {{1, 0}, {0, 2}, {1, 2}},            // orthogonal
      {{3, -1}, {3, -1}, {3, -1}},         // equal
      {{2, 0}, {4, 0}, {3, 0}},            // parallel: (1 - 8/8) 2 + (1 - 8/32) 4
      {{1, 0}, {-1, 0}, {0, 0}},           // opposite
      {{1, 1}, {1, 0}, {1.25F, 0.75F}},    // (1 - 1/4) a + (1 - 1/2) b
      {{1, 1}, {-1, 0}, {-0.25F, 1.25F}},  // against each other: (1 + 1/4) a + (1 + 1/2) b
      {{0, 0}, {3, 4}, {3, 4}},            // a rank that changed nothing
      {{0, 0}, {0, 0}, {0, 0}},            // two of them
      {{1e-18F, 0}, {0, 2}, {1e-18F, 2}}   // a small one is as good as any
  };
  for (const auto& [a, b, expected] : cases) {
    const torch::Tensor sum = adasum(torch::tensor(a), torch::tensor(b));
    EXPECT_TRUE(torch::equal(sum, torch::tensor(expected))) << sum;
  }
}

TEST(Adasum, HasEqualBitsInEitherOrder) {
  auto generator = at::detail::createCPUGenerator(7);
  const torch::Tensor a = torch::randn({1000}, generator), b = torch::randn({1000}, generator);
  EXPECT_TRUE(torch::equal(adasum(a, b), adasum(b, a)));
  // Two kinds of NaN, by their bits.
  const torch::Tensor some = torch::full({8}, 0x7fc00001, torch::kInt).view(torch::kFloat);
  const torch::Tensor others = torch::full({8}, 0x7fc00002, torch::kInt).view(torch::kFloat);
  EXPECT_TRUE(torch::equal(adasum(some, others).view(torch::kInt), adasum(others, some).view(torch::kInt)));
}

/// SGD with a momentum of 0.5 and a rate of 1, whose state is asked for once.
class Momentum final : public Optimizer {
 public:
  explicit Momentum(const std::vector<torch::Tensor>& parameters) : parameters_{parameters} {
    for (const torch::Tensor& parameter : parameters_) momenta_.push_back(torch::zeros_like(parameter));
  }
  void step() override {
    const torch::NoGradGuard no_grad;
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      if (!parameters_[index].grad().defined()) continue;
      momenta_[index].mul_(0.5).add_(parameters_[index].grad());
      parameters_[index].sub_(momenta_[index]);
    }
  }
  [[nodiscard]] NamedTensors state() override {
    EXPECT_FALSE(std::exchange(is_asked_, true));
    NamedTensors state;
    for (const torch::Tensor& momentum : momenta_) state.emplace_back("momentum", momentum);
    return state;
  }

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> momenta_;
  bool is_asked_ = false;
};

/// The gradients of step `step` on rank `rank` for parameters of 6, 3 and 4 elements. No rank but the last uses the
/// last parameter in step 1.
std::vector<torch::Tensor> make_local_gradients(std::int64_t step, std::int64_t rank, std::int64_t world_size) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + rank));
  std::vector<torch::Tensor> gradients{torch::randn({2, 3}, generator), torch::randn({3}, generator)};
  const bool is_used = step != 1 || rank == world_size - 1;
  gradients.push_back(is_used ? torch::randn({4}, generator) : torch::Tensor{});
  return gradients;
}

std::vector<torch::Tensor> make_weights(torch::ScalarType dtype = torch::kFloat) {
  const auto options = torch::dtype(dtype).requires_grad(true);
  return {torch::ones({2, 3}, options), torch::ones({3}, options), torch::ones({4}, options)};
}

NamedTensors named(const std::vector<torch::Tensor>& parameters) {
  return {{"a", parameters[0]}, {"b", parameters[1]}, {"c", parameters[2]}};
}

/// The parameters of `world_size` ranks after `steps` steps, computed in one place.
std::vector<torch::Tensor> simulate(std::int64_t world_size, std::int64_t steps) {
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& parameter : make_weights()) parameters.push_back(parameter.detach());
  std::vector<std::vector<torch::Tensor>> momenta(static_cast<std::size_t>(world_size));
  for (auto& of_rank : momenta)
    for (const torch::Tensor& parameter : parameters) of_rank.push_back(torch::zeros_like(parameter));
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::size_t index = 0; index < parameters.size(); ++index) {
      std::vector<torch::Tensor> changes;
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        const torch::Tensor gradient = make_local_gradients(step, rank, world_size)[index];
        torch::Tensor& momentum = momenta[static_cast<std::size_t>(rank)][index];
        if (gradient.defined()) momentum.mul_(0.5).add_(gradient);
        changes.push_back(gradient.defined() ? -momentum : torch::zeros_like(momentum));
      }
      while (changes.size() > 1) {
        std::vector<torch::Tensor> pairs;
        for (std::size_t first = 0; first < changes.size(); first += 2)
          pairs.push_back(adasum(changes[first], changes[first + 1]));
        changes = pairs;
      }
      parameters[index] = parameters[index] + changes[0];
    }
  }
  return parameters;
}

TEST(AdasumSync, CombinesTheChangesOfEachTensorInPairsAndPairsOfPairs) {
  constexpr std::int64_t steps = 4;
  for (const std::int64_t world_size : {2, 4, 8}) {
    const std::vector<torch::Tensor> expected = simulate(world_size, steps);
    for (const std::int64_t bucket_bytes : {1, 1'000'000}) {
      std::vector<std::vector<torch::Tensor>> all(static_cast<std::size_t>(world_size));
      run_ranks(world_size, [&](RankThread& rank) {
        std::vector<torch::Tensor>& parameters = all[static_cast<std::size_t>(rank.rank)];
        parameters = make_weights();
        AdasumSync sync{named(parameters),  {},
                        rank.process_group, *rank.communicator,
                        fakes::plain_wait,  {.limits = {.first_bytes = bucket_bytes, .bytes = bucket_bytes}}};
        ASSERT_TRUE(sync.synchronize_model());
        const auto optimizer = sync.adapt(std::make_unique<Momentum>(parameters));
        for (std::int64_t step = 0; step < steps; ++step) {
          sync.zero_gradients();
          torch::Tensor loss = torch::zeros({});
          const auto gradients = make_local_gradients(step, rank.rank, world_size);
          for (std::size_t index = 0; index < parameters.size(); ++index)
            if (gradients[index].defined()) loss = loss + (parameters[index] * gradients[index]).sum();
          sync.begin_backward(/*is_last_batch=*/true);
          loss.backward();
          ASSERT_TRUE(sync.finish_gradients());
          EXPECT_TRUE(torch::equal(parameters[0].grad(), gradients[0]));
          optimizer->step();
          ASSERT_TRUE(sync.after_update());
        }
        const std::uint64_t levels = world_size == 2 ? 1 : world_size == 4 ? 2 : 3;
        EXPECT_EQ(sync.exchanged_bytes(), steps * levels * 4 * (6 + 3 + 4));
      });
      for (const auto& of_rank : all) {
        for (std::size_t index = 0; index < expected.size(); ++index) {
          EXPECT_TRUE(torch::allclose(of_rank[index], expected[index], 1e-4, 1e-5)) << world_size << " ranks";
          EXPECT_TRUE(torch::equal(of_rank[index], all[0][index])) << world_size << " ranks";
        }
      }
    }
  }
}

TEST(AdasumSync, RefusesANumberOfRanksThatIsNoPowerOfTwoAndComplexNumbers) {
  run_ranks(3, [](RankThread& rank) {
    try {
      const AdasumSync sync{named(make_weights()), {}, rank.process_group, *rank.communicator, fakes::plain_wait, {}};
      ADD_FAILURE() << "three ranks were taken";
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("this group has 3: take 2 or 4"));
    }
  });
  run_ranks(2, [](RankThread& rank) {
    EXPECT_THROW(std::ignore = (AdasumSync{named(make_weights(torch::kComplexFloat)),
                                           {},
                                           rank.process_group,
                                           *rank.communicator,
                                           fakes::plain_wait,
                                           {}}),
                 InvalidJob);
  });
}

TEST(AdasumSync, SaysSoWhenAPeerIsLost) {
  run_ranks(2, [](RankThread& rank) {
    std::vector<torch::Tensor> parameters = make_weights();
    AdasumSync sync{named(parameters), {}, rank.process_group, *rank.communicator, fakes::plain_wait, {}};
    if (rank.rank == 1) return;  // Its connections close with its group.
    sync.zero_gradients();
    ASSERT_TRUE(sync.finish_gradients());
    const auto done = sync.after_update();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(done.error().message, testing::HasSubstr("changes of parameters"));
  });
}

TEST(AdasumSync, GivesARankThatTheCheckpointLacksTheOptimizerStateOfRankZero) {
  for (const bool is_saved : {true, false}) {
    run_ranks(2, [&](RankThread& rank) {
      std::vector<torch::Tensor> parameters = make_weights();
      AdasumSync sync{named(parameters), {}, rank.process_group, *rank.communicator, fakes::plain_wait, {}};
      const auto optimizer = sync.adapt(std::make_unique<Momentum>(parameters));
      for (auto& [name, tensor] : optimizer->state()) tensor.fill_(static_cast<double>(rank.rank + 5));
      if (rank.rank == 0 || is_saved) sync.before_save();
      ASSERT_TRUE(sync.after_restore());
      const double expected = is_saved && rank.rank == 1 ? 6.0 : 5.0;
      for (auto& [name, tensor] : optimizer->state()) EXPECT_EQ(tensor.flatten()[0].item<double>(), expected);
    });
  }
}

TEST(AdasumSync, HandsAllCallsOnToTheModelsOptimizer) {
  run_ranks(2, [](RankThread& rank) {
    const auto sync = std::make_unique<AdasumSync>(named(make_weights()), NamedTensors{}, rank.process_group,
                                                   *rank.communicator, fakes::plain_wait, DdpOptions{});
    expect_hands_on([&](std::unique_ptr<Optimizer> optimizer) { return sync->adapt(std::move(optimizer)); });
  });
}

}  // namespace
}  // namespace trainyard::strategy
