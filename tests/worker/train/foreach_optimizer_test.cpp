// The fused optimizers' features beyond torch.optim's: groups, a factor of the learning rate, steps that a device
// decides not to make, and LAMB.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "include/trainyard/options.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;

const std::vector<OptimizerSpec> all_optimizers{{.name = "adam", .lr = 0.1, .weight_decay = 0.1},
                                                {.name = "adamw", .lr = 0.1, .weight_decay = 0.1},
                                                {.name = "lamb", .lr = 0.1, .weight_decay = 0.1},
                                                {.name = "sgd", .lr = 0.1},
                                                {.name = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = true}};

Optimizer::NamedTensors some_weights() {
  return {{"first", torch::linspace(-1, 1, 6).reshape({2, 3}).requires_grad_()},
          {"second", torch::linspace(0, 2, 4).requires_grad_()}};
}

void set_gradients(const Optimizer::NamedTensors& weights, int step, float factor = 1.0F) {
  for (const auto& [name, weight] : weights)
    torch::Tensor{weight}.mutable_grad() =
        factor * torch::sin(torch::arange(weight.numel()).to(torch::kFloat) + step).reshape(weight.sizes());
}

void expect_equal(const Optimizer::NamedTensors& ours, const Optimizer::NamedTensors& theirs, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::equal(ours[i].second.detach(), theirs[i].second.detach())) << what << ": " << ours[i].first;
}

TEST(FusedOptimizers, FollowAFactorOfTheLearningRate) {
  for (const OptimizerSpec& spec : all_optimizers) {
    const auto ours = some_weights(), theirs = some_weights();
    auto half = spec;
    half.lr *= 0.5;
    const auto optimizer = make_optimizer(spec, ours);
    const auto oracle = make_optimizer(half, theirs);
    optimizer->set_lr_factor(0.5);
    for (int step = 0; step < 3; ++step) {
      set_gradients(ours, step);
      set_gradients(theirs, step);
      optimizer->step();
      oracle->step();
    }
    expect_equal(ours, theirs, spec.name);
  }
}

TEST(FusedOptimizers, ChangeNeitherParametersNorStateWhereAnInfinityWasFound) {
  for (const OptimizerSpec& spec : all_optimizers) {
    const auto ours = some_weights(), theirs = some_weights();
    const auto optimizer = make_optimizer(spec, ours);
    const auto oracle = make_optimizer(spec, theirs);
    for (int step = 0; step < 4; ++step) {
      const bool is_bad = step == 0 || step == 2;
      set_gradients(ours, step, is_bad ? std::numeric_limits<float>::quiet_NaN() : 1.0F);
      optimizer->step_unless(torch::full({}, is_bad ? 1.0F : 0.0F));
      if (is_bad) continue;
      set_gradients(theirs, step);
      oracle->step();
    }
    expect_equal(ours, theirs, spec.name);
    expect_equal(optimizer->state(), oracle->state(), spec.name + "'s state");
  }
}

TEST(FusedSgd, HasNesterovsMomentumAsTorch) {
  const auto ours = some_weights(), theirs = some_weights();
  const auto optimizer = make_optimizer({.name = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = true}, ours);
  torch::optim::SGD oracle{{theirs[0].second, theirs[1].second},
                           torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true)};
  for (int step = 0; step < 5; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    optimizer->step();
    oracle.step();
  }
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::allclose(ours[i].second, theirs[i].second, 1e-5, 1e-6)) << ours[i].first;
  EXPECT_THROW((void)make_optimizer({.name = "sgd", .nesterov = true}, ours), InvalidJob);
}

TEST(FusedOptimizers, StepEveryElementOf16BitTypes) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    for (const OptimizerSpec& spec : all_optimizers) {
      if (spec.name == "lamb" && type == torch::kHalf) continue;  // It is refused.
      // More elements than a vector of the CPU holds, and some beyond it.
      const torch::Tensor ours = torch::linspace(0.5, 1.0, 101).to(type).requires_grad_();
      const torch::Tensor theirs = torch::linspace(0.5, 1.0, 101).requires_grad_();
      const auto optimizer = make_optimizer(spec, {{"weight", ours}});
      const auto oracle = make_optimizer(spec, {{"weight", theirs}});
      for (int step = 0; step < 2; ++step) {
        ours.mutable_grad() = torch::full({101}, 1.0).to(type);
        theirs.mutable_grad() = torch::full({101}, 1.0);
        optimizer->step();
        oracle->step();
      }
      EXPECT_TRUE(torch::allclose(ours.detach().to(torch::kFloat), theirs.detach(), 0.02, 0.02)) << spec.name;
      const torch::Tensor before = ours.detach().clone();
      optimizer->step_unless(torch::ones({}));
      EXPECT_TRUE(torch::equal(ours.detach(), before)) << spec.name;
    }
  }
}

TEST(Lamb, IsRefusedForFloat16WhichCannotHoldItsSquares) {
  const torch::Tensor weight = torch::ones({2}, torch::kHalf).requires_grad_();
  EXPECT_THROW((void)make_optimizer(OptimizerSpec{.name = "lamb"}, {{"weight", weight}}), InvalidJob);
}

TEST(Lamb, StepsByTheFormulaOfItsPaper) {
  const OptimizerSpec spec{.name = "lamb", .lr = 0.1, .weight_decay = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6};
  const torch::Tensor weight = torch::tensor({3.0F, -4.0F}).requires_grad_();
  const auto optimizer = make_optimizer(spec, {{"weight", weight}});
  std::vector<double> x{3.0, -4.0}, m{0, 0}, v{0, 0};
  for (int step = 1; step <= 3; ++step) {
    const std::vector<double> g{0.5 * step, 1.0 - step};
    weight.mutable_grad() = torch::tensor({static_cast<float>(g[0]), static_cast<float>(g[1])});
    optimizer->step();
    std::vector<double> u(2);
    for (std::size_t i = 0; i < 2; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
      u[i] = m[i] / (1 - std::pow(0.8, step)) / (std::sqrt(v[i] / (1 - std::pow(0.9, step))) + 1e-6) + 0.01 * x[i];
    }
    const double ratio = std::hypot(x[0], x[1]) / std::hypot(u[0], u[1]);
    for (std::size_t i = 0; i < 2; ++i) {
      x[i] -= 0.1 * ratio * u[i];
      EXPECT_NEAR(weight[static_cast<std::int64_t>(i)].item<double>(), x[i], 1e-5) << "step " << step;
    }
  }
}

TEST(Lamb, TakesARatioOfOneForAParameterOfZeros) {
  const torch::Tensor weight = torch::zeros({1}).requires_grad_();
  const auto optimizer = make_optimizer({.name = "lamb", .lr = 0.1}, {{"weight", weight}});
  weight.mutable_grad() = torch::ones({1});
  optimizer->step();
  EXPECT_NEAR(weight.item<double>(), -0.1, 1e-6);
}

TEST(ParameterGroups, HaveTheirOwnRatesAndWeightDecays) {
  for (const OptimizerSpec& spec : all_optimizers) {
    torch::nn::Linear ours{3, 2}, theirs{3, 2};
    {
      const torch::NoGradGuard no_grad;
      theirs->weight.copy_(ours->weight);
      theirs->bias.copy_(ours->bias);
    }
    const auto grouped = trainyard::make_optimizer(
        spec, {{.parameters = {ours->weight}}, {.parameters = {ours->bias}, .lr = 0.5, .weight_decay = 0.0}}, *ours);
    auto of_bias = spec;
    of_bias.lr = 0.5;
    of_bias.weight_decay = 0.0;
    const auto first = make_optimizer(spec, {{"weight", theirs->weight}});
    const auto second = make_optimizer(of_bias, {{"bias", theirs->bias}});
    for (Optimizer* optimizer : {grouped.get(), first.get(), second.get()}) optimizer->set_lr_factor(0.5);
    for (int step = 0; step < 3; ++step) {
      set_gradients(named_parameters(*ours), step);
      set_gradients(named_parameters(*theirs), step);
      grouped->step();
      first->step();
      second->step();
    }
    expect_equal(named_parameters(*ours), named_parameters(*theirs), spec.name);
    Optimizer::NamedTensors expected = first->state();
    for (const auto& tensor : second->state()) expected.push_back(tensor);
    expect_equal(grouped->state(), expected, spec.name + "'s state");
  }
}

TEST(ParameterGroups, RefuseAParameterThatIsNotTheModelsOrComesTwice) {
  torch::nn::Linear model{3, 2};
  const auto refusal = [&](const std::vector<ParameterGroup>& groups) {
    try {
      (void)trainyard::make_optimizer({}, groups, *model);
    } catch (const InvalidJob& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  EXPECT_EQ(refusal({{.parameters = {torch::zeros({1}).requires_grad_()}}}),
            "the optimizer has a parameter that the model has not registered");
  EXPECT_EQ(refusal({{.parameters = {model->weight}}, {.parameters = {model->weight}}}),
            "the optimizer has the parameter weight twice: give it each tensor once");
}

/// An optimizer of a user's.
class OwnOptimizer final : public Optimizer {
 public:
  void step() override { ++steps; }
  [[nodiscard]] NamedTensors state() override { return {}; }
  int steps = 0;
};

TEST(OwnOptimizers, MakeNoStepWhereAnInfinityWasFound) {
  OwnOptimizer own;
  own.step_unless(torch::ones({}));
  EXPECT_EQ(own.steps, 0);
  own.step_unless(torch::zeros({}));
  EXPECT_EQ(own.steps, 1);
}

TEST(OwnOptimizers, AreRefusedWithAScheduleThatTheyWouldNotFollow) {
  OwnOptimizer own;
  try {
    own.set_lr_factor(0.5);
    ADD_FAILURE() << "the schedule would have no effect";
  } catch (const InvalidJob& error) {
    EXPECT_THAT(error.what(), HasSubstr("override trainyard::Optimizer::set_lr_factor()"));
  }
}

std::string refusal_of_shards(Optimizer& optimizer, const std::vector<ParameterShard>& shards) {
  try {
    optimizer.shard(shards);
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return {};
}

/// Rows [1, 2) of each weight.
std::vector<ParameterShard> second_rows(const Optimizer::NamedTensors& weights) {
  std::vector<ParameterShard> shards;
  for (const auto& [name, weight] : weights)
    shards.push_back({.parameter = weight, .rows = weight.detach().narrow(0, 1, 1), .row_begin = 1});
  return shards;
}

TEST(FusedOptimizers, UpdateOnlyTheRowsThatTheyAreGivenAndKeepStateOfThemOnly) {
  for (const OptimizerSpec& spec : all_optimizers) {
    if (spec.name == "lamb") continue;
    const auto ours = some_weights(), theirs = some_weights();
    const auto optimizer = make_optimizer(spec, ours);
    const auto oracle = make_optimizer(spec, theirs);
    const auto shards = second_rows(ours);
    optimizer->shard(shards);
    for (int step = 0; step < 3; ++step) {
      set_gradients(theirs, step);
      for (std::size_t index = 0; index < shards.size(); ++index)
        torch::Tensor{shards[index].rows}.mutable_grad() = theirs[index].second.grad().narrow(0, 1, 1);
      optimizer->step();
      oracle->step();
    }
    const auto before = some_weights();
    for (std::size_t index = 0; index < ours.size(); ++index) {
      const auto row_of = [&](const Optimizer::NamedTensors& weights, std::int64_t row) {
        return weights[index].second.detach()[row];
      };
      EXPECT_TRUE(torch::equal(row_of(ours, 0), row_of(before, 0))) << spec.name;
      EXPECT_TRUE(torch::equal(row_of(ours, 1), row_of(theirs, 1))) << spec.name;
    }
    const auto whole = oracle->state();
    const auto state = optimizer->state();
    ASSERT_EQ(state.size(), whole.size());
    for (std::size_t index = 0; index < state.size(); ++index) {
      const auto& [name, tensor] = state[index];
      EXPECT_EQ(name, whole[index].first);
      const auto shard = optimizer->shard_of(name);
      EXPECT_EQ(shard.has_value(), !name.starts_with("step.")) << name;
      EXPECT_TRUE(torch::equal(tensor, shard ? whole[index].second.narrow(0, 1, 1) : whole[index].second)) << name;
      if (shard) {
        EXPECT_TRUE(name.ends_with("." + ours[*shard].first)) << name;
      }
    }
  }
}

TEST(Optimizers, ThatNeedWholeParametersAreRefusedRows) {
  const auto weights = some_weights();
  OwnOptimizer own;
  EXPECT_THAT(refusal_of_shards(own, second_rows(weights)), HasSubstr("override trainyard::Optimizer::shard()"));
  EXPECT_THAT(refusal_of_shards(*make_optimizer({.name = "lamb"}, weights), second_rows(weights)),
              HasSubstr("training.optimizer.name: lamb cannot train with training.strategy.name sharded"));
  EXPECT_THAT(refusal_of_shards(*make_optimizer({.name = "adam"}, weights), second_rows({weights[0]})),
              HasSubstr("cannot train the parameter second, which is not among those"));
}

TEST(WrappedOptimizers, FollowAFactorOfEachGroupsOwnRate) {
  torch::nn::Linear model{3, 2};
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{model->weight});
  groups.emplace_back(std::vector<torch::Tensor>{model->bias}, std::make_unique<torch::optim::SGDOptions>(0.4));
  auto sgd = std::make_unique<torch::optim::SGD>(std::move(groups), torch::optim::SGDOptions(0.2));
  const torch::optim::SGD& inner = *sgd;
  const auto wrapped = wrap_optimizer(std::move(sgd), *model);
  for (const double factor : {0.5, 0.25}) {
    wrapped->set_lr_factor(factor);
    EXPECT_DOUBLE_EQ(inner.param_groups()[0].options().get_lr(), 0.2 * factor);
    EXPECT_DOUBLE_EQ(inner.param_groups()[1].options().get_lr(), 0.4 * factor);
  }
}

}  // namespace
}  // namespace trainyard::train
