// The example of docs/extending.md, which is a file as a strategy's author writes it.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/tiny_model.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/strategy_parts.hpp"

namespace trainyard::strategy {

/// Defined in example_strategy.cpp. strategies.cpp would declare it in the same way.
std::unique_ptr<GradientSync> make_through_rank0(StrategyParts parts);

namespace {

using fakes::RankThread;
using fakes::run_ranks;

dist::Group connected(RankThread& rank) {
  return {.rank = rank.rank,
          .world_size = rank.world_size,
          .store = {},
          .process_group = rank.process_group,
          .communicator = std::move(rank.communicator),
          .checkpoint_communicator = {}};
}

std::unique_ptr<GradientSync> make_example(const torch::nn::Module& module, dist::Group& group) {
  return make_through_rank0({.parameters = parameters_of(module),
                             .buffers = buffers_of(module),
                             .group = group,
                             .wait = plain_wait,
                             .follow = plain_wait});
}

/// The states of each rank's model after each of `steps` steps. Each rank begins with weights of its own.
std::vector<std::vector<torch::Tensor>> train_by_example(std::int64_t world_size, std::int64_t steps) {
  std::vector<std::shared_ptr<TinyModel>> models;
  for (std::int64_t rank = 0; rank < world_size; ++rank) models.push_back(make_tiny_model(rank));
  std::vector<std::vector<torch::Tensor>> states(models.size());
  run_ranks(world_size, [&](RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    dist::Group group = connected(rank);
    const auto gradients = make_example(model, group);
    ASSERT_TRUE(gradients->synchronize_model().has_value());
    for (std::int64_t step = 0; step < steps; ++step) {
      train_step(*gradients, model, make_tiny_batch(step, rank.rank));
      states[static_cast<std::size_t>(rank.rank)].push_back(flat_state(model));
    }
  });
  return states;
}

TEST(ExampleStrategy, TrainsToTheBitsOfDdpInEachStep) {
  constexpr std::int64_t world_size = 2, steps = 4;
  const auto states = train_by_example(world_size, steps);
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::vector<torch::Tensor> expected = train_by_ddp(world_size, step + 1);
    for (std::size_t rank = 0; rank < states.size(); ++rank)
      EXPECT_TRUE(torch::equal(states[rank].at(static_cast<std::size_t>(step)), expected[rank]))
          << "step " << step << " of rank " << rank;
  }
}

TEST(ExampleStrategy, SaysSoWhenAPeerIsLost) {
  for (const std::int64_t lost : {0, 1}) {
    run_ranks(2, [&](RankThread& rank) {
      if (rank.rank == lost) return;  // Its connections close with its group.
      TinyModel model;
      dist::Group group = connected(rank);
      const auto gradients = make_example(model, group);
      gradients->zero_gradients();
      const torch::Tensor loss = loss_of(model, make_tiny_batch(0, rank.rank));
      gradients->begin_backward(/*is_last_batch=*/true);
      loss.backward();
      const auto done = gradients->finish_gradients();
      ASSERT_FALSE(done.has_value());
      EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
    });
  }
}

}  // namespace
}  // namespace trainyard::strategy
