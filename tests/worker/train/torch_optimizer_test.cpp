#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "include/trainyard/optimizer.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard {
namespace {

namespace optim = torch::optim;

using Parameters = std::vector<torch::Tensor>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(Parameters)>;

template <typename Kind, typename Options>
Make maker(Options options) {
  return [options](Parameters parameters) { return std::make_unique<Kind>(std::move(parameters), options); };
}

torch::nn::Linear a_model() {
  torch::nn::Linear model{3, 2};
  const torch::NoGradGuard no_grad;
  model->weight.copy_(torch::linspace(-1, 1, 6).reshape({2, 3}));
  model->bias.copy_(torch::linspace(0, 1, 2));
  return model;
}

void set_gradients(torch::nn::Linear& model, std::int64_t step) {
  model->weight.mutable_grad() = torch::sin(torch::arange(6).to(torch::kFloat) + step).reshape({2, 3});
  // The bias has no gradient in the first steps, so that its state begins later than that of the weight.
  if (step >= 2) model->bias.mutable_grad() = torch::cos(torch::arange(2).to(torch::kFloat) * step);
}

TEST(WrappedOptimizer, StepsAndResumesToTheBitAsLibTorchsOwn) {
  struct Row {
    std::string what;
    Make make;
  };
  const std::vector<Row> rows{
      {"Adam", maker<optim::Adam>(optim::AdamOptions(0.1).weight_decay(0.1))},
      // With so short a memory the squares' mean falls below its maximum, which is then what a step uses.
      {"Adam, amsgrad", maker<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true).betas({0.9, 0.1}))},
      {"AdamW", maker<optim::AdamW>(optim::AdamWOptions(0.1))},
      {"AdamW, amsgrad", maker<optim::AdamW>(optim::AdamWOptions(0.1).amsgrad(true).betas({0.9, 0.1}))},
      {"SGD", maker<optim::SGD>(optim::SGDOptions(0.1))},
      {"SGD, Nesterov", maker<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"RMSprop", maker<optim::RMSprop>(optim::RMSpropOptions(0.1))},
      {"RMSprop, all", maker<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.9).centered(true))},
      {"Adagrad", maker<optim::Adagrad>(optim::AdagradOptions(0.1).lr_decay(0.1))}};
  for (const Row& row : rows) {
    auto theirs = a_model(), ours = a_model(), resumed = a_model();
    const auto oracle = row.make(theirs->parameters());
    const auto first = wrap_optimizer(row.make(ours->parameters()), *ours);
    for (std::int64_t step = 0; step < 4; ++step) {
      set_gradients(theirs, step);
      set_gradients(ours, step);
      oracle->step();
      first->step();
    }
    EXPECT_TRUE(torch::equal(ours->weight, theirs->weight)) << row.what;
    EXPECT_TRUE(torch::equal(ours->bias, theirs->bias)) << row.what;

    const auto second = wrap_optimizer(row.make(resumed->parameters()), *resumed);
    {
      const torch::NoGradGuard no_grad;
      resumed->weight.copy_(ours->weight);
      resumed->bias.copy_(ours->bias);
    }
    first->before_save();
    const auto saved = first->state();
    const auto restored = second->state();
    ASSERT_EQ(saved.size(), restored.size()) << row.what;
    for (std::size_t index = 0; index < saved.size(); ++index) {
      EXPECT_EQ(saved[index].first, restored[index].first) << row.what;
      torch::Tensor{restored[index].second}.copy_(saved[index].second);
    }
    second->after_restore();
    for (std::int64_t step = 4; step < 7; ++step) {
      set_gradients(theirs, step);
      set_gradients(resumed, step);
      oracle->step();
      second->step();
    }
    EXPECT_TRUE(torch::equal(resumed->weight, theirs->weight)) << row.what;
    EXPECT_TRUE(torch::equal(resumed->bias, theirs->bias)) << row.what;
  }
}

TEST(WrappedOptimizer, NamesItsStateByTheModelsNames) {
  auto model = a_model();
  std::vector<std::string> names;
  for (const auto& [name, tensor] :
       wrap_optimizer(maker<optim::Adam>(optim::AdamOptions())(model->parameters()), *model)->state())
    names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("step.weight", "exp_avg.weight", "exp_avg_sq.weight", "step.bias",
                                          "exp_avg.bias", "exp_avg_sq.bias"));
}

/// An optimizer of a user's that has Adam's options and a state of its own.
class OwnOptimizer final : public optim::Optimizer {
 public:
  explicit OwnOptimizer(Parameters parameters)
      : Optimizer{{optim::OptimizerParamGroup{std::move(parameters)}}, std::make_unique<optim::AdamOptions>()} {}
  torch::Tensor step(LossClosure /*closure*/) override { return {}; }
};

TEST(WrappedOptimizer, RefusesWhatACheckpointCouldNotHold) {
  auto model = a_model();
  const auto refusal = [&](std::unique_ptr<optim::Optimizer> optimizer) {
    try {
      (void)wrap_optimizer(std::move(optimizer), *model);
    } catch (const InvalidJob& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  EXPECT_THAT(refusal(maker<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).dampening(0.5))(model->parameters())),
              testing::HasSubstr("use dampening 0"));
  auto twice = model->parameters();
  twice.push_back(twice.front());
  EXPECT_EQ(refusal(maker<optim::SGD>(optim::SGDOptions(0.1))(twice)),
            "the optimizer has the parameter weight twice: give it each shared tensor once");
  EXPECT_EQ(refusal(nullptr), "wrap_optimizer was given no optimizer");
  EXPECT_THAT(refusal(std::make_unique<OwnOptimizer>(model->parameters())),
              testing::HasSubstr("derive from trainyard::Optimizer"))
      << "it uses Adam's options";
  EXPECT_THAT(refusal(maker<optim::LBFGS>(optim::LBFGSOptions())(model->parameters())),
              testing::HasSubstr("derive from trainyard::Optimizer"));
  EXPECT_THAT(refusal(maker<optim::SGD>(optim::SGDOptions(0.1))(a_model()->parameters())),
              testing::HasSubstr("a parameter that the model has not registered"));
}

}  // namespace
}  // namespace trainyard
