#include "worker/train/precision.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace trainyard::train {
namespace {

api::TrainingSpec job_in(api::Precision precision, bool channels_last = false) {
  api::TrainingSpec training;
  training.precision = precision;
  training.channels_last = channels_last;
  return training;
}

TEST(NumberFormat, ConvertsOnlyFloatingPointTensors) {
  const std::vector<std::pair<api::Precision, torch::ScalarType>> rows{
      {api::Precision::fp32, torch::kFloat},       {api::Precision::fp16_mixed, torch::kFloat},
      {api::Precision::bf16_mixed, torch::kFloat}, {api::Precision::fp64, torch::kDouble},
      {api::Precision::fp16, torch::kHalf},        {api::Precision::bf16, torch::kBFloat16}};
  for (const auto& [precision, type] : rows) {
    const NumberFormat format = number_format(job_in(precision));
    torch::nn::BatchNorm2d norm{3};
    convert(*norm, format);
    EXPECT_EQ(norm->weight.scalar_type(), type);
    EXPECT_TRUE(norm->weight.requires_grad());
    EXPECT_EQ(norm->running_mean.scalar_type(), type);
    EXPECT_EQ(norm->num_batches_tracked.scalar_type(), torch::kInt64);
    const Batch batch = converted({.inputs = torch::zeros({2, 3}),
                                   .targets = torch::zeros({2}, torch::kInt64),
                                   .ids = torch::zeros({2}, torch::kInt64),
                                   .named = {{"mask", torch::zeros({2})}, {"flags", torch::zeros({2}, torch::kBool)}}},
                                  format);
    EXPECT_EQ(batch.inputs.scalar_type(), type);
    EXPECT_EQ(batch.targets.scalar_type(), torch::kInt64);
    EXPECT_EQ(converted({.inputs = {}, .targets = torch::zeros({2}), .ids = {}}, format).targets.scalar_type(), type);
    EXPECT_EQ(batch.named.at("mask").tensor().scalar_type(), type);
    EXPECT_EQ(batch.named.at("flags").tensor().scalar_type(), torch::kBool);
  }
}

TEST(NumberFormat, LaysOutImagesAndConvolutionsWithTheirChannelsLast) {
  const NumberFormat format = number_format(job_in(api::Precision::fp32, /*channels_last=*/true));
  torch::nn::Conv2d convolution{torch::nn::Conv2dOptions(3, 4, 3)};
  const torch::Tensor before = convolution->weight.detach().clone();
  convert(*convolution, format);
  EXPECT_TRUE(convolution->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::equal(convolution->weight.detach(), before));
  const Batch batch = converted({.inputs = torch::rand({2, 3, 8, 8}), .targets = {}, .ids = {}}, format);
  EXPECT_TRUE(batch.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(NumberFormat, LaysOutNeitherTargetsNorBuffers) {
  const NumberFormat format = number_format(job_in(api::Precision::fp32, /*channels_last=*/true));
  const torch::Tensor image = torch::rand({2, 3, 8, 8});
  const Batch batch = converted({.inputs = {}, .targets = image, .ids = {}, .named = {{"second", image}}}, format);
  EXPECT_TRUE(batch.targets.is_contiguous()) << "a loss may take a view of them";
  EXPECT_TRUE(batch.named.at("second").tensor().is_contiguous(at::MemoryFormat::ChannelsLast));
  torch::nn::Module module;
  const torch::Tensor buffer = module.register_buffer("buffer", torch::rand({2, 3, 8, 8}));
  convert(module, format);
  EXPECT_TRUE(buffer.is_contiguous());
}

TEST(Autocast, ComputesInTheShorterTypeAndRestoresTheStateAlsoAfterAnException) {
  const torch::Tensor weight = torch::rand({4, 4}).requires_grad_();
  const auto product_type = [&] { return torch::matmul(weight, weight).scalar_type(); };
  const auto dtype = at::autocast::get_autocast_dtype(torch::kCPU);
  for (const auto& [precision, type] :
       {std::pair{api::Precision::bf16_mixed, torch::kBFloat16}, std::pair{api::Precision::fp16_mixed, torch::kHalf},
        std::pair{api::Precision::fp32, torch::kFloat}}) {
    try {
      const Autocast autocast{number_format(job_in(precision)), torch::kCPU};
      EXPECT_EQ(product_type(), type);
      throw std::runtime_error{"the model fails"};
    } catch (const std::runtime_error&) {
      EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
      EXPECT_EQ(at::autocast::get_autocast_dtype(torch::kCPU), dtype);
      EXPECT_EQ(product_type(), torch::kFloat);
    }
  }
}

TEST(Autocast, ForgetsWeightsThatWereConvertedBeforeAStep) {
  const torch::Tensor weight = torch::ones({2, 2}).requires_grad_();
  const auto sum = [&] {
    const Autocast autocast{number_format(job_in(api::Precision::bf16_mixed)), torch::kCPU};
    return torch::matmul(weight, torch::ones({2, 2})).sum().item<double>();
  };
  EXPECT_EQ(sum(), 8.0);
  weight.detach().fill_(2.0);
  EXPECT_EQ(sum(), 16.0);
}

TEST(MathSettings, AreThoseOfTheJob) {
  api::TrainingSpec training;
  training.float32_matmul_precision = api::Float32MatmulPrecision::high;
  training.cudnn_benchmark = true;
  training.deterministic = true;
  apply_math_settings(training);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGH);
  EXPECT_TRUE(at::globalContext().benchmarkCuDNN());
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  training.float32_matmul_precision = api::Float32MatmulPrecision::medium;
  apply_math_settings(training);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::MEDIUM);
  apply_math_settings({});
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

}  // namespace
}  // namespace trainyard::train
