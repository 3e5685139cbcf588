#include "worker/train/optimization_step.hpp"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <string>
#include <vector>

namespace trainyard::train {
namespace {

std::vector<torch::Tensor> some_gradients() {
  return {torch::linspace(-3, 3, 12).reshape({3, 4}), torch::linspace(0, 2, 5), torch::full({}, -4.0)};
}

std::vector<torch::Tensor> parameters_with(const std::vector<torch::Tensor>& gradients) {
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& gradient : gradients) {
    parameters.push_back(torch::zeros_like(gradient).requires_grad_());
    parameters.back().mutable_grad() = gradient;
  }
  return parameters;
}

/// Clips by the norm of these gradients alone, and returns it.
torch::Tensor clip_all(const api::GradientClipSpec& clip, const std::vector<torch::Tensor>& gradients) {
  const torch::Tensor norm = norm_of(gradients);
  clip_gradients(clip, norm, gradients);
  return norm;
}

TEST(ClipGradients, ByTheNormIsThatOfTorch) {
  for (const double bound : {0.5, 5.0, 100.0}) {
    const auto ours = some_gradients();
    const auto theirs = some_gradients();
    const torch::Tensor norm = clip_all({.norm = bound, .value = {}}, ours);
    const double expected = torch::nn::utils::clip_grad_norm_(parameters_with(theirs), bound);
    EXPECT_NEAR(norm.item<double>(), expected, 1e-5);
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 1e-6, 1e-7)) << bound << ", gradient " << i;
  }
}

TEST(ClipGradients, LeavesThoseBelowTheNormAsTheyAreToTheBit) {
  const auto gradients = some_gradients();
  (void)clip_all({.norm = 100.0, .value = {}}, gradients);
  EXPECT_TRUE(torch::equal(gradients[0], some_gradients()[0]));
}

TEST(ClipGradients, ByTheValueIsThatOfTorch) {
  const auto ours = some_gradients();
  const auto theirs = some_gradients();
  const torch::Tensor norm = clip_all({.norm = {}, .value = 1.5}, ours);
  const double before = torch::nn::utils::clip_grad_norm_(parameters_with(some_gradients()), 1.0);
  torch::nn::utils::clip_grad_value_(parameters_with(theirs), 1.5);
  EXPECT_NEAR(norm.item<double>(), before, 1e-5) << "the norm is that of before";
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << "gradient " << i;
}

TEST(ClipGradients, TakesOneNormOfSeveralTypes) {
  const std::vector<torch::Tensor> gradients{torch::full({9}, 1.0, torch::kFloat),
                                             torch::full({16}, 1.0, torch::kBFloat16)};
  EXPECT_DOUBLE_EQ(clip_all({.norm = 1.0, .value = {}}, gradients).item<double>(), 5.0);
  EXPECT_EQ(gradients[1].scalar_type(), torch::kBFloat16);
  EXPECT_NEAR(gradients[0][0].item<double>(), 0.2, 1e-6);
  EXPECT_NEAR(gradients[1][0].item<double>(), 0.2, 1e-2);
}

TEST(ClipGradients, ShowsANormThatIsNotFiniteAndTakesNoGradients) {
  const std::vector<torch::Tensor> gradients{torch::tensor({1.0F, std::numeric_limits<float>::infinity()})};
  EXPECT_FALSE(torch::isfinite(clip_all({.norm = 1.0, .value = {}}, gradients)).item<bool>());
  EXPECT_EQ(clip_all({.norm = 1.0, .value = {}}, {}).item<double>(), 0.0);
}

TEST(ClipGradients, ByANormThatTheTypeOfTheGradientsCannotHold) {
  struct Case {
    std::string what;
    std::vector<torch::Tensor> gradients;
    double norm;
  };
  const auto halves = [] { return torch::full({4}, 40000.0, torch::kHalf); };
  const std::vector<Case> cases{
      {"of 16 bits", {halves()}, 80000.0},
      {"of 16 bits before others", {halves(), torch::full({9}, 20000.0)}, 100000.0},
      {"of 16 bits after others", {torch::full({9}, 20000.0), halves()}, 100000.0},
      {"of 64 bits after others", {torch::zeros({1}), torch::full({4}, 1e30, torch::kDouble)}, 2e30},
  };
  for (const Case& c : cases) {
    const torch::Tensor norm = clip_all({.norm = c.norm / 2, .value = {}}, c.gradients);
    EXPECT_NEAR(norm.item<double>() / c.norm, 1.0, 1e-3) << c.what;
    EXPECT_NEAR(norm_of(c.gradients).item<double>() / c.norm, 0.5, 1e-3) << c.what << ", after clipping";
  }
}

}  // namespace
}  // namespace trainyard::train
