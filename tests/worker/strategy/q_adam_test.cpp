// Bagua's QAdam, each step of it against a simulation of all ranks in one place.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/q_adam.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::strategy {
namespace {

using fakes::plain_wait;
using fakes::RankThread;
using fakes::run_ranks;

constexpr std::int64_t rows = 5, columns = 7, elements = rows * columns;
constexpr std::int64_t warmup_steps = 3, steps = 7;
const OptimizerSpec adam{.name = "adam", .lr = 0.01, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6};

torch::Tensor make_gradient(std::int64_t step, std::int64_t rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + rank));
  return torch::randn({rows, columns}, generator);
}

torch::Tensor make_parameter() {
  return make_gradient(99, 99);
}

struct Trained {
  std::vector<torch::Tensor> parameters;  // after each step
  std::uint64_t bytes = 0;
  double step_count = 0;  // of the optimizer
};

/// The state of one rank after each of `steps` steps. Step `bad_step` is skipped.
Trained train(RankThread& rank, std::int64_t bad_step = -1) {
  const NamedTensors parameters{{"p", make_parameter().requires_grad_()}};
  Ddp ddp{parameters,         {},
          rank.process_group, *rank.communicator,
          plain_wait,         {.exchange = [](const std::vector<std::string>&) { return q_adam(warmup_steps); }}};
  const auto optimizer = ddp.adapt(train::make_optimizer(adam, parameters));
  Trained trained;
  for (std::int64_t step = 0; step < steps; ++step) {
    ddp.zero_gradients();
    ddp.begin_backward(/*is_last_batch=*/true);
    (parameters[0].second * make_gradient(step, rank.rank)).sum().backward();
    EXPECT_TRUE(ddp.finish_gradients());
    optimizer->step_unless(torch::full({}, step == bad_step ? 1.0F : 0.0F));
    trained.parameters.push_back(parameters[0].second.detach().clone());
  }
  trained.bytes = ddp.exchanged_bytes();
  for (const auto& [name, tensor] : optimizer->state())
    if (name.starts_with("step.")) trained.step_count = tensor.item<double>();
  return trained;
}

torch::Tensor through_bytes(const torch::Tensor& chunks) {
  return decompress(compress(chunks), chunks.size(1));
}

/// The mean of ByteGrad: `numbers` has those of each rank.
torch::Tensor byte_mean(const std::vector<torch::Tensor>& numbers) {
  const auto ranks = static_cast<std::int64_t>(numbers.size());
  const std::int64_t chunk = (elements + ranks - 1) / ranks;
  torch::Tensor sum = torch::zeros({ranks, chunk});
  for (const torch::Tensor& own : numbers)
    sum += through_bytes(torch::cat({own.flatten(), torch::zeros({ranks * chunk - elements})}).view({ranks, chunk}));
  return through_bytes(sum / static_cast<double>(ranks)).flatten().slice(0, 0, elements).view({rows, columns});
}

/// The parameter of all ranks after each step, by the formulas in float32.
std::vector<torch::Tensor> simulate(std::int64_t ranks) {
  torch::Tensor p = make_parameter(), m = torch::zeros_like(p), v = torch::zeros_like(p);
  std::vector<torch::Tensor> found;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step < warmup_steps) {
      torch::Tensor g = p * adam.weight_decay;
      for (std::int64_t rank = 0; rank < ranks; ++rank) g = g + make_gradient(step, rank) / static_cast<double>(ranks);
      m = adam.beta1 * m + (1 - adam.beta1) * g;
      v = adam.beta2 * v + (1 - adam.beta2) * g * g;
    } else {
      std::vector<torch::Tensor> of_ranks;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        of_ranks.push_back(adam.beta1 * m + (1 - adam.beta1) * (make_gradient(step, rank) + adam.weight_decay * p));
      m = byte_mean(of_ranks);
    }
    const auto t = static_cast<double>(step + 1);
    const torch::Tensor denominator = v.sqrt() / std::sqrt(1 - std::pow(adam.beta2, t)) + adam.eps;
    p = p - adam.lr / (1 - std::pow(adam.beta1, t)) * m / denominator;
    found.push_back(p);
  }
  return found;
}

TEST(QAdam, IsItsFormulaOnTwoToFourRanks) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    std::vector<Trained> trained(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](RankThread& rank) { trained[static_cast<std::size_t>(rank.rank)] = train(rank); });
    const std::vector<torch::Tensor> expected = simulate(ranks);
    for (std::size_t step = 0; step < expected.size(); ++step) {
      // A number between two bytes may be rounded otherwise, and then differs by a 255th of its chunk's range.
      const double tolerance = step < warmup_steps ? 1e-6 : 2e-3;
      EXPECT_TRUE(torch::allclose(trained[0].parameters[step], expected[step], 0.0, tolerance))
          << ranks << " ranks, step " << step << ", "
          << (trained[0].parameters[step] - expected[step]).abs().max().item<float>();
      for (const Trained& other : trained)
        EXPECT_TRUE(torch::equal(other.parameters[step], trained[0].parameters[step]));
    }
    const std::int64_t sent = (ranks + 1) * compressed_bytes((elements + ranks - 1) / ranks);
    // Each exchange also sends one number that says whether the parameter was used.
    EXPECT_EQ(trained[0].bytes,
              static_cast<std::uint64_t>(warmup_steps * 4 * (elements + 1) + (steps - warmup_steps) * (sent + 4)));
  }
}

TEST(QAdam, KeepsMomentsAndParametersInAStepThatIsSkipped) {
  std::vector<Trained> trained(2);
  run_ranks(2, [&](RankThread& rank) { trained[static_cast<std::size_t>(rank.rank)] = train(rank, /*bad_step=*/4); });
  EXPECT_TRUE(torch::equal(trained[0].parameters[4], trained[0].parameters[3]));
  EXPECT_FALSE(torch::equal(trained[0].parameters[5], trained[0].parameters[4]));
  EXPECT_EQ(trained[0].step_count, steps - 1) << "the corrections of the biases go by the steps that were made";
}

TEST(QAdam, RefusesAnOptimizerWhoseMomentsItCannotCompute) {
  run_ranks(2, [&](RankThread& rank) {
    const NamedTensors parameters{{"p", make_parameter().requires_grad_()}};
    Ddp ddp{parameters,         {},
            rank.process_group, *rank.communicator,
            plain_wait,         {.exchange = [](const std::vector<std::string>&) { return q_adam(warmup_steps); }}};
    EXPECT_THROW(std::ignore = ddp.adapt(train::make_optimizer({.name = "adamw"}, parameters)), InvalidJob);
  });
}

}  // namespace
}  // namespace trainyard::strategy
