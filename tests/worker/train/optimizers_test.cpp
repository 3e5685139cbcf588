#include "worker/train/optimizers.hpp"

#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/train/small_module.hpp"

namespace trainyard::train {
namespace {

struct Weights {
  torch::Tensor first = torch::linspace(-1, 1, 12).reshape({3, 4}).requires_grad_();
  torch::Tensor second = torch::linspace(0, 2, 5).requires_grad_();
  torch::Tensor frozen = torch::ones({2});

  [[nodiscard]] Optimizer::NamedTensors named() const {
    return {{"first", first}, {"second", second}, {"frozen", frozen}};
  }
  void set_gradients(std::int64_t step) {
    first.mutable_grad() = torch::sin(torch::arange(12).to(torch::kFloat) + static_cast<float>(step)).reshape({3, 4});
    second.mutable_grad() = torch::cos(torch::arange(5).to(torch::kFloat) * static_cast<float>(step));
  }
};

TEST(Optimizers, AreThoseOfTorch) {
  struct Case {
    std::string what;
    OptimizerSpec spec;
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> oracle;
  };
  const auto adam = [](double lr, double weight_decay) {
    return [=](std::vector<torch::Tensor> weights) {
      return std::make_unique<torch::optim::Adam>(weights, torch::optim::AdamOptions(lr).weight_decay(weight_decay));
    };
  };
  const auto sgd = [](double lr, double momentum, double weight_decay) {
    return [=](std::vector<torch::Tensor> weights) {
      return std::make_unique<torch::optim::SGD>(
          weights, torch::optim::SGDOptions(lr).momentum(momentum).weight_decay(weight_decay));
    };
  };
  const std::vector<Case> cases{
      {"Adam", {.name = "adam", .lr = 0.01}, adam(0.01, 0.0)},
      {"Adam with weight decay", {.name = "adam", .lr = 0.01, .weight_decay = 0.1}, adam(0.01, 0.1)},
      {"AdamW",
       {.name = "adamw", .lr = 0.01, .weight_decay = 0.1},
       [](std::vector<torch::Tensor> weights) {
         return std::make_unique<torch::optim::AdamW>(weights, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
       }},
      {"Adam with other betas and eps",
       {.name = "adam", .lr = 0.01, .beta1 = 0.5, .beta2 = 0.8, .eps = 0.1},
       [](std::vector<torch::Tensor> weights) {
         return std::make_unique<torch::optim::Adam>(weights,
                                                     torch::optim::AdamOptions(0.01).betas({0.5, 0.8}).eps(0.1));
       }},
      {"SGD", {.name = "sgd", .lr = 0.1}, sgd(0.1, 0.0, 0.0)},
      {"SGD with momentum", {.name = "sgd", .lr = 0.1, .momentum = 0.9}, sgd(0.1, 0.9, 0.0)},
      {"SGD with both", {.name = "sgd", .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, sgd(0.1, 0.9, 0.01)}};
  for (const Case& c : cases) {
    Weights ours, theirs;
    const auto optimizer = make_optimizer(c.spec, ours.named());
    const auto oracle = c.oracle({theirs.first, theirs.second});
    for (std::int64_t step = 0; step < 10; ++step) {
      ours.set_gradients(step);
      theirs.set_gradients(step);
      optimizer->step();
      oracle->step();
    }
    EXPECT_TRUE(torch::allclose(ours.first, theirs.first, 1e-5, 1e-6)) << c.what;
    EXPECT_TRUE(torch::allclose(ours.second, theirs.second, 1e-5, 1e-6)) << c.what;
    EXPECT_TRUE(torch::equal(ours.frozen, torch::ones({2}))) << c.what;
  }
}

TEST(Optimizers, StepWeightsOfSeveralTypesToTheBitAsEachTypeAlone) {
  const auto weights = [] {
    Optimizer::NamedTensors named;
    for (int i = 0; i < 6; ++i) {
      const auto type = i % 2 == 0 ? torch::kBFloat16 : torch::kFloat;
      named.emplace_back(std::to_string(i), torch::linspace(-1 - i, 1, 40).to(type).requires_grad_());
    }
    return named;
  };
  const auto set_gradients = [](Optimizer::NamedTensors& named, int step) {
    for (auto& [name, weight] : named) {
      if (name == "3" && step == 1) {
        weight.mutable_grad().reset();  // Not used in this step.
      } else {
        weight.mutable_grad() = torch::sin(torch::arange(40).to(torch::kFloat) + step).to(weight.dtype());
      }
    }
  };
  for (const OptimizerSpec& spec :
       {OptimizerSpec{.name = "adam", .lr = 0.01, .weight_decay = 0.1},
        OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.9}, OptimizerSpec{.name = "sgd", .lr = 0.1}}) {
    Optimizer::NamedTensors mixed = weights();
    Optimizer::NamedTensors alone = weights();
    const auto together = make_optimizer(spec, mixed);
    std::vector<std::unique_ptr<Optimizer>> each;
    for (const auto& weight : alone) each.push_back(make_optimizer(spec, {weight}));
    for (int step = 0; step < 4; ++step) {
      set_gradients(mixed, step);
      set_gradients(alone, step);
      together->step();
      for (const auto& one : each) one->step();
    }
    for (std::size_t i = 0; i < mixed.size(); ++i)
      EXPECT_TRUE(torch::equal(mixed[i].second, alone[i].second)) << "weight " << i;
  }
}

TEST(OpenOptimizer, RefusesAModelThatConfiguresNone) {
  SmallModule module;
  module.own_optimizer = [](SmallModule&) { return std::unique_ptr<Optimizer>{}; };
  EXPECT_THROW((void)open_optimizer(module, {}), InvalidJob);
  module.own_optimizer = nullptr;
  EXPECT_NE(open_optimizer(module, {.name = api::OptimizerName::adamw}), nullptr);
}

TEST(Optimizers, ContinueToTheBitFromTheirState) {
  for (const OptimizerSpec& spec : {OptimizerSpec{.name = "adam"}, OptimizerSpec{.name = "adamw", .weight_decay = 0.1},
                                    OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.9}}) {
    Weights whole, resumed;
    const auto first = make_optimizer(spec, whole.named());
    for (std::int64_t step = 0; step < 5; ++step) {
      whole.set_gradients(step);
      first->step();
    }
    const auto second = make_optimizer(spec, resumed.named());
    {
      const torch::NoGradGuard no_grad;
      resumed.first.copy_(whole.first);
      resumed.second.copy_(whole.second);
    }
    const auto from = first->state();
    const auto to = second->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t index = 0; index < from.size(); ++index) {
      EXPECT_EQ(from[index].first, to[index].first);
      to[index].second.copy_(from[index].second);
    }
    for (std::int64_t step = 5; step < 10; ++step) {
      whole.set_gradients(step);
      resumed.set_gradients(step);
      first->step();
      second->step();
    }
    EXPECT_TRUE(torch::equal(whole.first, resumed.first));
    EXPECT_TRUE(torch::equal(whole.second, resumed.second));
  }
}

TEST(Optimizers, LeaveParametersWithoutGradientAlone) {
  for (const std::string name : {"adam", "sgd"}) {
    Weights weights;
    const auto optimizer = make_optimizer({.name = name, .momentum = 0.9, .weight_decay = 0.1}, weights.named());
    weights.set_gradients(1);
    optimizer->step();
    weights.set_gradients(2);
    weights.second.mutable_grad().reset();
    const torch::Tensor before = weights.second.detach().clone();
    optimizer->step();
    EXPECT_TRUE(torch::equal(weights.second, before));
  }
}

TEST(Optimizers, StepWeightsOfSixteenBitsAsThoseOfThirtyTwo) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    for (const OptimizerSpec& spec :
         {OptimizerSpec{.name = "sgd", .lr = 0.1}, OptimizerSpec{.name = "sgd", .lr = 0.1, .weight_decay = 0.5},
          OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.5},
          OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.5, .nesterov = true, .weight_decay = 0.5}}) {
      torch::Tensor narrow = torch::linspace(-1, 1, 40).to(type).requires_grad_();
      torch::Tensor wide = narrow.detach().to(torch::kFloat).requires_grad_();
      const auto of_narrow = make_optimizer(spec, {{"weight", narrow}});
      const auto of_wide = make_optimizer(spec, {{"weight", wide}});
      for (int step = 0; step < 6; ++step) {
        narrow.mutable_grad() = torch::sin(torch::arange(40).to(torch::kFloat) + step).to(type);
        wide.mutable_grad() = narrow.grad().to(torch::kFloat);
        of_wide->step();
        of_narrow->step_unless(torch::zeros({}));
      }
      EXPECT_TRUE(torch::allclose(narrow.detach().to(torch::kFloat), wide.detach(), 0.02, 0.02))
          << type << ", momentum " << spec.momentum << ", weight decay " << spec.weight_decay;
      const torch::Tensor before = narrow.detach().clone();
      of_narrow->step_unless(torch::ones({}));
      EXPECT_TRUE(torch::equal(narrow.detach(), before)) << "a bad step changes nothing";
    }
  }
}

TEST(Optimizers, GiveEachGroupItsOwnRateAndWeightDecay) {
  class Pair final : public Module {
   public:
    Pair() {
      register_parameter("a", a);
      register_parameter("b", b);
      register_parameter("frozen", frozen, /*requires_grad=*/false);
    }
    [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
    torch::Tensor a = torch::ones({3});
    torch::Tensor b = torch::ones({3});
    torch::Tensor frozen = torch::ones({3});
  };
  for (const std::string name : {"adam", "adamw", "sgd", "lamb"}) {
    Pair pair;
    const OptimizerSpec spec{.name = name, .lr = 0.5, .weight_decay = 0.5};
    const auto optimizer = make_optimizer(
        spec, {{.parameters = {pair.a, pair.frozen}}, {.parameters = {pair.b}, .weight_decay = 0.0}}, pair);
    for (const auto& [state_name, tensor] : optimizer->state())
      EXPECT_FALSE(state_name.ends_with("frozen")) << name << " has a state of what it does not train: " << state_name;
    pair.a.mutable_grad() = torch::zeros({3});
    pair.b.mutable_grad() = torch::zeros({3});
    optimizer->step();
    EXPECT_FALSE(torch::equal(pair.a.detach(), torch::ones({3}))) << name << " decays the first";
    EXPECT_TRUE(torch::equal(pair.b.detach(), torch::ones({3}))) << name << " does not decay the second";
  }
}

TEST(Optimizers, RefuseAnUnknownNameAndNesterovWithoutMomentum) {
  const auto refusal = [](const OptimizerSpec& spec) {
    try {
      (void)make_optimizer(spec, Weights{}.named());
    } catch (const InvalidJob& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  const std::string nesterov = "training.optimizer.nesterov: is only for sgd with momentum";
  EXPECT_EQ(refusal({.name = "sgd", .nesterov = true}), nesterov);
  EXPECT_EQ(refusal({.name = "adam", .momentum = 0.9, .nesterov = true}), nesterov);
  EXPECT_EQ(refusal({.name = "sgd", .momentum = 1.0, .nesterov = true}), "");
  EXPECT_EQ(refusal({.name = "adagrad"}),
            "training.optimizer.name: no optimizer 'adagrad' here (there is: adam, adamw, lamb, sgd)");
}

TEST(PublicSpec, HasEachFieldOfTheJobs) {
  const OptimizerSpec spec = public_spec({.name = api::OptimizerName::sgd,
                                          .lr = 0.5,
                                          .momentum = 0.25,
                                          .nesterov = true,
                                          .weight_decay = 0.125,
                                          .beta1 = 0.75,
                                          .beta2 = 0.875,
                                          .eps = 1e-3});
  EXPECT_EQ(spec.name, "sgd");
  EXPECT_EQ(spec.lr, 0.5);
  EXPECT_EQ(spec.momentum, 0.25);
  EXPECT_TRUE(spec.nesterov);
  EXPECT_EQ(spec.weight_decay, 0.125);
  EXPECT_EQ(spec.beta1, 0.75);
  EXPECT_EQ(spec.beta2, 0.875);
  EXPECT_EQ(spec.eps, 1e-3);
  for (const auto& [name, text] : {std::pair{api::OptimizerName::adam, "adam"},
                                   {api::OptimizerName::adamw, "adamw"},
                                   {api::OptimizerName::lamb, "lamb"}})
    EXPECT_EQ(public_spec({.name = name}).name, text);
}

}  // namespace
}  // namespace trainyard::train
