#include "worker/train/loss_scaler.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>
#include <string>
#include <vector>

namespace trainyard::train {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(LossScaler, KeepsItsScaleWhereTheLossItselfWasBad) {
  LossScaler scaler{torch::kCPU, {.first = 8.0, .growth_interval = 2}};
  const std::vector<torch::Tensor> bad{torch::tensor({infinity})};
  scaler.unscale(bad);
  scaler.update(torch::ones({}));
  EXPECT_EQ(scaler.state()[0].second.item<double>(), 8.0);
  scaler.unscale(bad);
  scaler.update(torch::zeros({}));
  EXPECT_EQ(scaler.state()[0].second.item<double>(), 4.0);
}

TEST(LossScaler, ChangesItsScaleAsGradScaler) {
  struct Row {
    std::string what;
    std::vector<bool> is_finite;  // For each step: whether its gradients are finite.
    std::vector<double> scales;   // After each step, from 8, growing after two steps with finite gradients.
  };
  const std::vector<Row> rows{
      {"it grows after two good steps", {true, true, true, true}, {8, 16, 16, 32}},
      {"it is halved at once", {false, false, true, true}, {4, 2, 2, 4}},
      {"a bad step begins the count anew", {true, false, true, true}, {8, 4, 4, 8}},
  };
  for (const Row& row : rows) {
    LossScaler scaler{torch::kCPU, {.first = 8.0, .growth_interval = 2}};
    for (std::size_t step = 0; step < row.scales.size(); ++step) {
      scaler.unscale({torch::tensor({1.0F, row.is_finite[step] ? 2.0F : infinity})});
      EXPECT_EQ(scaler.found_inf().item<float>(), row.is_finite[step] ? 0.0F : 1.0F);
      scaler.update();
      EXPECT_EQ(scaler.state()[0].second.item<double>(), row.scales[step]) << row.what << ", step " << step + 1;
    }
  }
}

TEST(LossScaler, GivesBackTheGradientsOfTheLossItself) {
  LossScaler scaler{torch::kCPU};
  EXPECT_EQ(scaler.scale(torch::full({}, 2.0)).item<double>(), 131072.0);
  const std::vector<torch::Tensor> gradients{torch::full({2}, 65536.0), torch::full({3}, 131072.0, torch::kDouble)};
  scaler.unscale(gradients);
  EXPECT_TRUE(torch::equal(gradients[0], torch::ones({2})));
  EXPECT_TRUE(torch::equal(gradients[1], torch::full({3}, 2.0, torch::kDouble)));
}

TEST(LossScaler, FindsANumberThatIsNotFiniteInAnyGradientOfAnyType) {
  LossScaler scaler{torch::kCPU};
  scaler.unscale({torch::tensor({std::numeric_limits<float>::quiet_NaN()}), torch::ones({1}, torch::kDouble)});
  EXPECT_EQ(scaler.found_inf().item<float>(), 1.0F);
  scaler.unscale({torch::ones({1})});
  EXPECT_EQ(scaler.found_inf().item<float>(), 0.0F) << "each step begins anew";
}

}  // namespace
}  // namespace trainyard::train
