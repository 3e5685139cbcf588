#include "worker/models/resnet.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/worker/models/filled_parameters.hpp"
#include "tests/worker/models/logged_values.hpp"

namespace trainyard::models {
namespace {

Options model_options(const std::string& json) {
  return Options{json};
}

class ResNetTest : public testing::Test {
 protected:
  // On a busy machine, threads that wait for each other would take longer than the work.
  ResNetTest() { at::set_num_threads(1); }
};

/// Two images of a formula, for which a program in Python made the logits below.
torch::Tensor formula_images(std::int64_t side) {
  const torch::Tensor values = torch::arange(2 * 3 * side * side, torch::kDouble).mul(0.11).sin();
  return values.view({2, 3, side, side}).to(torch::kFloat);
}

template <typename Model>
torch::Tensor logits_of(const std::string& options, std::int64_t side) {
  Model model{model_options(options)};
  fill_parameters(model);
  model.eval();
  const torch::NoGradGuard no_grad;
  return model.forward(formula_images(side));
}

void expect_logits(const torch::Tensor& logits, const std::vector<double>& expected) {
  const torch::Tensor wanted = torch::tensor(expected, torch::kDouble).view({2, 5}).to(torch::kFloat);
  EXPECT_TRUE(logits.allclose(wanted, 1e-4, 1e-4)) << logits;
}

TEST_F(ResNetTest, HasTorchvisionsParameters) {
  const ResNet18 small{Options{}};
  EXPECT_EQ(count_parameters(small), 11'689'512);
  EXPECT_EQ(small.named_parameters().size(), 62U);
  EXPECT_EQ(small.classes(), 1000);
  const ResNet50 large{Options{}};
  EXPECT_EQ(count_parameters(large), 25'557'032);
  EXPECT_EQ(large.named_parameters().size(), 161U);
  EXPECT_TRUE(has_parameter(large, "conv1.weight", {64, 3, 7, 7}));
  EXPECT_TRUE(has_parameter(large, "bn1.bias", {64}));
  EXPECT_TRUE(has_parameter(large, "layer1.0.downsample.0.weight", {256, 64, 1, 1}));
  EXPECT_TRUE(has_parameter(large, "layer1.0.downsample.1.weight", {256}));
  EXPECT_TRUE(has_parameter(large, "layer4.2.conv3.weight", {2048, 512, 1, 1}));
  EXPECT_TRUE(has_parameter(large, "fc.weight", {1000, 2048}));
  EXPECT_TRUE(large.named_buffers().contains("layer3.5.bn2.running_var"));
  EXPECT_TRUE(large.named_buffers().contains("layer2.0.downsample.1.num_batches_tracked"));
}

// A program in Python wrote the same network with torch.nn, as torchvision has it, and gave it the same parameters.
TEST_F(ResNetTest, GivesTheLogitsOfThatInPython) {
  expect_logits(logits_of<ResNet18>(R"({"classes": 5})", 40),
                {0.6024506688, -0.9532117248, -1.7888045311, -1.2054054737, 0.3298535347, 0.6020933390, -0.9525156021,
                 -1.7876312733, -1.2047258615, 0.3294769228});
  expect_logits(logits_of<ResNet18>(R"({"classes": 5, "smallImages": true})", 16),
                {0.5992345214, -0.9540922046, -1.7866207361, -1.2019646168, 0.3317036331, 0.5991043448, -0.9554596543,
                 -1.7880934477, -1.2023241520, 0.3327552080});
  expect_logits(logits_of<ResNet50>(R"({"classes": 5})", 40),
                {-1.1568180323, 1.0982788801, -0.6615270972, -0.2062617242, 0.7237108350, -1.1579941511, 1.0971308947,
                 -0.6585044861, -0.2099766731, 0.7266647220});
}

TEST_F(ResNetTest, BeginsWithConvolutionsScaledByWhatTheyGive) {
  torch::manual_seed(0);
  const ResNet18 model{Options{}};
  const auto parameters = model.named_parameters();
  EXPECT_NEAR(parameters["layer4.1.conv2.weight"].std().item<double>(), std::sqrt(2.0 / (512 * 9)), 1e-3);
  EXPECT_NEAR(parameters["layer4.0.downsample.0.weight"].std().item<double>(), std::sqrt(2.0 / 512), 1e-3);
  EXPECT_EQ(parameters["layer4.1.bn2.weight"].min().item<double>(), 1);
}

TEST_F(ResNetTest, ValidatesAndPredictsByItsLargestLogit) {
  torch::manual_seed(0);
  ResNet18 model{model_options(R"({"classes": 4, "channels": 1, "smallImages": true})")};
  model.eval();
  LoggedValues logged;
  model.set_metric_sink(&logged);
  Batch batch{.inputs = torch::rand({4, 1, 8, 8}), .targets = {}, .ids = torch::arange(4)};
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = model.forward(batch.inputs);
  batch.targets = logits.argmax(1);
  batch.targets[2] = (batch.targets[2] + 1) % 4;
  model.validation_step(batch, 0);
  EXPECT_NEAR(logged.values.at("val_accuracy"), 0.75, 1e-6);
  EXPECT_NEAR(logged.values.at("val_loss"), torch::cross_entropy_loss(logits, batch.targets).item<double>(), 1e-6);
  const auto predicted = model.predict_step(batch, 0);
  EXPECT_EQ(predicted.size(), 2U);
  EXPECT_TRUE(predicted.at("class").equal(logits.argmax(1)));
  EXPECT_TRUE(predicted.at("logits").equal(logits));
}

TEST_F(ResNetTest, RefusesOptionsOutsideTheirBounds) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"classes": 0})", "classes: must be a whole number from 1 to 1000000, got 0"},
      {R"({"classes": 1000001})", "classes: must be a whole number from 1 to 1000000, got 1000001"},
      {R"({"channels": 0})", "channels: must be a whole number from 1 to 1024, got 0"},
      {R"({"channels": 1025})", "channels: must be a whole number from 1 to 1024, got 1025"},
  };
  for (const auto& [json, message] : cases) {
    try {
      const ResNet18 model{model_options(json)};
      ADD_FAILURE() << json;
    } catch (const InvalidJob& error) {
      EXPECT_EQ(error.what(), "training.model.options." + message);
    }
  }
}

TEST_F(ResNetTest, GivesEveryParameterAGradient) {
  torch::manual_seed(0);
  ResNet18 model{model_options(R"({"classes": 4, "channels": 1, "smallImages": true})")};
  const Batch batch{
      .inputs = torch::rand({4, 1, 8, 8}), .targets = torch::arange(4, torch::kInt64), .ids = torch::arange(4)};
  model.training_step(batch, 0).loss.backward();
  for (const auto& item : model.named_parameters())
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
}

}  // namespace
}  // namespace trainyard::models
