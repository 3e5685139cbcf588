#include "worker/models/gpt2.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "tests/worker/models/filled_parameters.hpp"
#include "tests/worker/models/logged_values.hpp"

namespace trainyard::models {
namespace {

constexpr const char* tiny_options =
    R"({"layers": 2, "heads": 2, "width": 8, "vocabulary": 11, "sequenceLength": 6, "dropout": 0.5})";

std::string gpt2_refusal(const std::string& options) {
  try {
    const Gpt2 model{Options{options}};
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

TEST(Gpt2, HasTheParametersOfHuggingFace) {
  const Gpt2 model{Gpt2Sizes{}};
  EXPECT_EQ(count_parameters(model), 124'439'808);
  EXPECT_TRUE(has_parameter(model, "transformer.wte.weight", {50'257, 768}));
  EXPECT_TRUE(has_parameter(model, "transformer.wpe.weight", {1024, 768}));
  EXPECT_TRUE(has_parameter(model, "transformer.h.0.ln_1.weight", {768}));
  EXPECT_TRUE(has_parameter(model, "transformer.h.0.attn.c_attn.weight", {768, 2304}));
  EXPECT_TRUE(has_parameter(model, "transformer.h.11.attn.c_proj.weight", {768, 768}));
  EXPECT_TRUE(has_parameter(model, "transformer.h.11.mlp.c_fc.weight", {768, 3072}));
  EXPECT_TRUE(has_parameter(model, "transformer.h.11.mlp.c_proj.bias", {768}));
  EXPECT_TRUE(has_parameter(model, "transformer.ln_f.bias", {768}));
  EXPECT_TRUE(model.named_parameters()["lm_head.weight"].is_same(model.named_parameters()["transformer.wte.weight"]));
  EXPECT_EQ(model.classes(), 50'257);
}

// Radford et al. 2019: N(0, 0.02), and what is added to the residuals by 1 / sqrt(2 x layers) less.
TEST(Gpt2, BeginsWithTheDeviationsOfThePaper) {
  torch::manual_seed(0);
  const Gpt2 model{Options{R"({"layers": 2, "heads": 2, "width": 128, "vocabulary": 500, "sequenceLength": 200})"}};
  const auto deviation = [&](const std::string& name) {
    return model.named_parameters()[name].detach().std().item<double>();
  };
  for (const std::string name : {"transformer.wte.weight", "transformer.wpe.weight",
                                 "transformer.h.0.attn.c_attn.weight", "transformer.h.1.mlp.c_fc.weight"}) {
    EXPECT_NEAR(deviation(name), 0.02, 0.001) << name;
  }
  for (const std::string name : {"transformer.h.0.attn.c_proj.weight", "transformer.h.1.mlp.c_proj.weight"}) {
    EXPECT_NEAR(deviation(name), 0.01, 0.0005) << name;
  }
}

// Made by transformers.GPT2LMHeadModel in Python, with the same parameters and tokens.
TEST(Gpt2, GivesTheLogitsAndTheLossOfHuggingFace) {
  Gpt2 model{Options{tiny_options}};
  fill_parameters(model);
  model.eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::tensor({1, 5, 0, 10, 3, 2, 2, 9, 4, 7}, torch::kInt64).view({2, 5});
  const torch::Tensor logits = model.forward(tokens);
  ASSERT_EQ(logits.sizes(), (torch::IntArrayRef{2, 5, 11}));
  const torch::Tensor expected =
      torch::tensor({-0.8283619285, 1.3420975208,  -1.8116973639, 2.2217192650,  -2.5586786270, 2.8114953041,
                     -2.9718546867, 3.0344836712,  -2.9973225594, 2.8615927696,  -2.6317591667, -1.2187533379,
                     1.6528136730,  -2.0325205326, 2.3453874588,  -2.5811250210, 2.7319815159,  -2.7929959297,
                     2.7621612549,  -2.6404924393, 2.4319894314,  -2.1435098648},
                    torch::kDouble);
  EXPECT_TRUE(logits.flatten().slice(0, 0, 22).to(torch::kDouble).allclose(expected, 1e-4, 1e-4)) << logits[0];
  const torch::Tensor targets = torch::tensor({5, 0, 10, 3, 6, 2, 9, 4, 7, 1}, torch::kInt64).view({2, 5});
  const Batch batch{.inputs = tokens, .targets = targets, .ids = torch::arange(2)};
  EXPECT_NEAR(model.training_step(batch, 0).loss.item<double>(), 4.5549740791, 1e-4);
  LoggedValues logged;
  model.set_metric_sink(&logged);
  model.validation_step(batch, 0);
  EXPECT_NEAR(logged.values.at("val_loss"), 4.5549740791, 1e-4);
}

TEST(Gpt2, BeginsWithTheValuesOfHuggingFace) {
  torch::manual_seed(0);
  const Gpt2 model{Gpt2Sizes{.layers = 8, .heads = 4, .width = 128, .vocabulary = 500, .sequence_length = 64}};
  const auto parameters = model.named_parameters();
  EXPECT_NEAR(parameters["transformer.wte.weight"].std().item<double>(), 0.02, 1e-3);
  EXPECT_NEAR(parameters["transformer.h.3.attn.c_attn.weight"].std().item<double>(), 0.02, 1e-3);
  EXPECT_NEAR(parameters["transformer.h.3.mlp.c_proj.weight"].std().item<double>(), 0.02 / 4, 3e-4);
  EXPECT_EQ(parameters["transformer.h.3.mlp.c_fc.bias"].abs().max().item<double>(), 0);
}

TEST(Gpt2, DropsOnlyWhileItTrains) {
  torch::manual_seed(0);
  Gpt2 model{Options{tiny_options}};
  const torch::Tensor tokens = torch::tensor({{1, 2, 3}}, torch::kInt64);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model.forward(tokens).equal(model.forward(tokens)));
  model.eval();
  EXPECT_TRUE(model.forward(tokens).equal(model.forward(tokens)));
}

TEST(Gpt2, LearnsASentenceByHeart) {
  torch::manual_seed(0);
  Gpt2 model{Options{R"({"layers": 2, "heads": 2, "width": 32, "vocabulary": 11, "sequenceLength": 8, "dropout": 0})"}};
  const torch::Tensor tokens = torch::tensor({{3, 1, 4, 1, 5, 9, 2, 6, 5}}, torch::kInt64);
  const Batch batch{.inputs = tokens.slice(1, 0, 8), .targets = tokens.slice(1, 1), .ids = torch::arange(1)};
  const auto optimizer = model.configure_optimizers({.lr = 0.01});
  double last = 0.0;
  for (int step = 0; step < 30; ++step) {
    for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    const torch::Tensor loss = model.training_step(batch, step).loss;
    loss.backward();
    optimizer->step();
    last = loss.item<double>();
  }
  EXPECT_LT(last, 0.3);
}

TEST(Gpt2, RefusesSizesAndSequencesThatDoNotFit) {
  EXPECT_EQ(gpt2_refusal(R"({"width": 10, "heads": 3})"),
            "training.model.options.width: must be a multiple of the 3 heads, got 10");
  EXPECT_EQ(gpt2_refusal(R"({"layers": 0})"),
            "training.model.options.layers: must be a whole number from 1 to 1000, got 0");
  EXPECT_EQ(gpt2_refusal(R"({"dropout": 1})"),
            "training.model.options.dropout: must be a number from 0 to 0.99, got 1");
  EXPECT_EQ(gpt2_refusal(R"({"sequenceLength": 1048577})"),
            "training.model.options.sequenceLength: must be a whole number from 1 to 1048576, got 1048577");
  Gpt2 model{Options{tiny_options}};
  EXPECT_EQ(model.forward(torch::zeros({1, 6}, torch::kInt64)).size(1), 6);
  try {
    (void)model.forward(torch::zeros({1, 7}, torch::kInt64));
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(), "the data has sequences of 7 tokens, but training.model.options.sequenceLength is 6");
  }
}

}  // namespace
}  // namespace trainyard::models
