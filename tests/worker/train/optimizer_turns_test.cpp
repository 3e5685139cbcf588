#include "worker/train/optimizer_turns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TwoLines final : public Module {
 public:
  TwoLines() {
    register_module("a", a);
    register_module("b", b);
    register_buffer("seen", torch::zeros({1}));
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t) override {
    return (a(batch.inputs) + b(batch.inputs)).sum();
  }
  [[nodiscard]] std::vector<NamedOptimizer> configure_named_optimizers(const OptimizerSpec& spec) override {
    return configure ? configure(spec) : std::vector<NamedOptimizer>{};
  }
  [[nodiscard]] NamedOptimizer of(std::string name, torch::nn::Linear& line) {
    return make_named_optimizer(std::move(name), {}, {{.parameters = line->parameters()}}, *this);
  }

  std::function<std::vector<NamedOptimizer>(const OptimizerSpec&)> configure;
  torch::nn::Linear a{2, 1}, b{2, 1};
};

std::vector<NamedOptimizer> both(NamedOptimizer first, NamedOptimizer second) {
  std::vector<NamedOptimizer> optimizers;
  optimizers.push_back(std::move(first));
  optimizers.push_back(std::move(second));
  return optimizers;
}

struct Exchanged {
  std::vector<std::vector<std::string>> names;  // of each turn's parameters, then buffers
};

/// The strategy of a rank that exchanges nothing.
class NoExchange final : public strategy::GradientSync {
 public:
  [[nodiscard]] Result<void> synchronize_model() override { return {}; }
  void zero_gradients() override {}
  void begin_backward(bool /*is_last_batch*/) override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }
};

std::vector<OptimizerTurn> open(TwoLines& module, Exchanged& exchanged) {
  return open_turns(module, {}, [&](const NamedTensors& parameters, const NamedTensors& buffers) {
    auto& names = exchanged.names.emplace_back();
    for (const auto& tensors : {parameters, buffers})
      for (const auto& [name, tensor] : tensors) names.push_back(name);
    return std::make_unique<NoExchange>();
  });
}

TEST(OpenTurns, GivesTheOnlyOptimizerNoNameAndAllTensors) {
  TwoLines module;
  Exchanged exchanged;
  const auto turns = open(module, exchanged);
  ASSERT_EQ(turns.size(), 1U);
  EXPECT_EQ(turns[0].name, "");
  EXPECT_THAT(exchanged.names, ElementsAre(ElementsAre("a.weight", "a.bias", "b.weight", "b.bias", "seen")));
  EXPECT_EQ(optimizer_state(turns).front().first, "exp_avg.a.weight");
}

TEST(OpenTurns, GivesEachOptimizerItsParametersAndTheLastOneTheRest) {
  TwoLines module;
  module.configure = [&](const OptimizerSpec&) {
    return both(make_named_optimizer("B", {}, {{.parameters = {module.b->weight}}}, module), module.of("A", module.a));
  };
  Exchanged exchanged;
  const auto turns = open(module, exchanged);
  EXPECT_THAT(exchanged.names,
              ElementsAre(ElementsAre("b.weight"), ElementsAre("a.weight", "a.bias", "b.bias", "seen")));
  EXPECT_FALSE(module.b->bias.requires_grad());
  std::set<std::string> names;
  for (const auto& [name, tensor] : optimizer_state(turns)) names.insert(name);
  EXPECT_EQ(names.size(), optimizer_state(turns).size());
  EXPECT_TRUE(names.contains("B.exp_avg.b.weight"));
  EXPECT_TRUE(names.contains("A.exp_avg.a.bias"));
}

TEST(OpenTurns, TakesNamesOfLettersDigitsUnderscoresAndDashes) {
  TwoLines module;
  const auto is_taken = [&](const std::string& name) {
    module.configure = [&](const OptimizerSpec&) { return both(module.of(name, module.a), module.of("-", module.b)); };
    Exchanged exchanged;
    try {
      return open(module, exchanged).front().name == name;
    } catch (const InvalidJob&) {
      return false;
    }
  };
  for (const std::string& name : {std::string{"azAZ09_-x"}, std::string{"9"}, std::string(63, 'n')})
    EXPECT_TRUE(is_taken(name)) << name;
  for (const std::string& name : {std::string{"`"}, std::string{"{"}, std::string{"@"}, std::string{"["},
                                  std::string{"/"}, std::string{":"}, std::string{"."}, std::string(64, 'n')})
    EXPECT_FALSE(is_taken(name)) << name;
}

TEST(OpenTurns, RefusesOptimizersThatCannotBeTrainedWith) {
  TwoLines module;
  torch::nn::Linear foreign{2, 1};
  const std::pair<std::function<std::vector<NamedOptimizer>()>, std::string> rows[] = {
      {[&] { return both(module.of("", module.a), module.of("b", module.b)); }, "a name that is not 1 to 63"},
      {[&] { return both(module.of("a.b", module.a), module.of("b", module.b)); }, "a name that is not 1 to 63"},
      {[&] { return both(module.of("a", module.a), module.of("a", module.b)); }, "the name of another one"},
      {[&] { return both(module.of("a", module.a), {.name = "b", .optimizer = {}, .parameters = {}}); },
       "'b' no Optimizer"},
      {[&] { return both(module.of("a", module.a), module.of("b", module.a)); },
       "'b' the parameter a.weight, which 'a' already has"},
      {[&] {
         auto optimizers = both(module.of("a", module.a), module.of("b", module.b));
         optimizers[1].parameters = foreign->parameters();
         return optimizers;
       },
       "'b' a parameter that the model has not registered"},
      {[&] {
         auto optimizers = both(module.of("a", module.a), module.of("b", module.b));
         optimizers[1].parameters.clear();
         return optimizers;
       },
       "'b' no parameter that needs a gradient"},
  };
  for (const auto& [make, message] : rows) {
    module.configure = [&](const OptimizerSpec&) { return make(); };
    Exchanged exchanged;
    try {
      std::ignore = open(module, exchanged);
      ADD_FAILURE() << message;
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(FrozenParameters, NeedNoGradientUntilItsEndAndOthersStayAsTheyAre) {
  torch::nn::Linear line{2, 1};
  line->bias.set_requires_grad(false);
  {
    const FrozenParameters frozen{line->parameters()};
    EXPECT_FALSE(line->weight.requires_grad());
  }
  EXPECT_TRUE(line->weight.requires_grad());
  EXPECT_FALSE(line->bias.requires_grad());
}

}  // namespace
}  // namespace trainyard::train
