#include "worker/models/image_networks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/models/filled_parameters.hpp"

namespace trainyard::models {
namespace {

using testing::HasSubstr;

/// Five values of what `network` makes in evaluation mode of one image of a formula, as far apart as they can be. Its
/// parameters are those of a formula too, and one is added to the weights of norms.
std::vector<double> values_of(ImageNetwork& network, std::int64_t channels, std::int64_t side) {
  const torch::NoGradGuard no_grad;
  fill_parameters(network);
  for (const auto& item : network.named_parameters())
    if (item.value().dim() == 1 && item.key().ends_with("weight")) torch::Tensor{item.value()}.add_(1);
  network.eval();
  const torch::Tensor image = torch::arange(channels * side * side, torch::kDouble).mul(0.11).sin();
  const torch::Tensor made = network.forward(image.view({1, channels, side, side}).to(torch::kFloat)).flatten();
  std::vector<double> values;
  const std::int64_t apart = std::max<std::int64_t>(1, made.size(0) / 5);
  for (std::int64_t place = 0; place < made.size(0) && values.size() < 5; place += apart)
    values.push_back(made[place].item<double>());
  return values;
}

void expect_values(ImageNetwork& network, std::int64_t channels, std::int64_t side,
                   const std::vector<double>& expected) {
  EXPECT_THAT(values_of(network, channels, side), testing::Pointwise(testing::DoubleNear(1e-5), expected));
}

NetworkSize small(Norm norm, bool has_dropout, bool is_reflected = false) {
  return {.filters = 2, .norm = norm, .has_dropout = has_dropout, .is_reflected = is_reflected};
}

// DeepLIIF's own networks in Python were given the same parameters and images.
TEST(ImageNetworks, MakeWhatThoseOfDeepLiifMake) {
  expect_values(*make_generator("resnet_2blocks", small(Norm::batch, true), "netG"), 3, 16,
                {-0.02076589, -0.00911677, 0.01248429, 0.01228921, -0.00538009});
  expect_values(*make_generator("resnet_1blocks", small(Norm::instance, false, true), "netG"), 3, 16,
                {-0.28320962, -0.34095871, -0.09517136, 0.30489156, -0.40705091});
  expect_values(*make_generator("unet_32", small(Norm::batch, true), "netG"), 3, 32,
                {-0.09144687, -0.11047493, -0.59207875, 0.0982687, 0.17949805});
  expect_values(*make_generator("unet_64", small(Norm::instance, true), "netG"), 3, 64,
                {-0.08442063, -0.34888384, -0.27843198, 0.27767262, -0.60308278});
  expect_values(*make_discriminator(2, {.in = 6, .filters = 2, .norm = Norm::batch}), 6, 64,
                {-0.23507071, 0.1969655, 0.01211043, 0.00740302, -0.0867829});
  expect_values(*make_discriminator(4, {.in = 6, .filters = 2, .norm = Norm::none}), 6, 64,
                {-0.13308403, 0.05945911, 0.54088718, 0.59655523});
}

TEST(ImageNetworks, HaveTheParametersOfThoseOfDeepLiif) {
  const auto resnet = make_generator("resnet_9blocks", {.filters = 8}, "netG");
  EXPECT_EQ(resnet->named_parameters().size(), 71U);
  EXPECT_TRUE(has_parameter(*resnet, "model.1.weight", {8, 3, 7, 7}));
  EXPECT_TRUE(has_parameter(*resnet, "model.10.conv_block.6.weight", {32, 32, 3, 3}));
  EXPECT_TRUE(has_parameter(*resnet, "model.26.bias", {3}));
  const auto unet = make_generator("unet_512", {.filters = 2}, "netGs");
  EXPECT_EQ(unet->named_parameters().size(), 49U);
  EXPECT_TRUE(has_parameter(*unet, "model.model.0.weight", {2, 3, 4, 4}));
  EXPECT_TRUE(has_parameter(*unet, "model.model.1.model.3.model.1.weight", {8, 4, 4, 4}));
  EXPECT_EQ(count_parameters(*make_discriminator(4, {.in = 6})), 6'964'033);
}

TEST(ImageNetworks, BeginWithSmallKernelsAndNormsAroundOne) {
  torch::manual_seed(0);
  const auto network = make_generator("resnet_2blocks", {.filters = 16}, "netG");
  const auto parameters = network->named_parameters();
  EXPECT_NEAR(parameters["model.7.weight"].std().item<double>(), 0.02, 1e-3);
  EXPECT_NEAR(parameters["model.8.weight"].mean().item<double>(), 1.0, 0.02);
  EXPECT_EQ(parameters["model.19.bias"].abs().max().item<double>(), 0);
}

std::int64_t count_dropouts(const torch::nn::Module& network) {
  std::int64_t count = 0;
  for (const auto& module : network.modules()) count += module->as<torch::nn::Dropout>() != nullptr ? 1 : 0;
  return count;
}

TEST(ImageNetworks, DropOutInEachBlockAndInTheLevelsOfTheGreatestWidth) {
  const NetworkSize with{.filters = 1, .has_dropout = true}, without{.filters = 1, .has_dropout = false};
  EXPECT_EQ(count_dropouts(*make_generator("resnet_3blocks", with, "netG")), 3);
  EXPECT_EQ(count_dropouts(*make_generator("resnet_3blocks", without, "netG")), 0);
  EXPECT_EQ(count_dropouts(*make_generator("unet_32", with, "netG")), 0);
  EXPECT_EQ(count_dropouts(*make_generator("unet_512", with, "netG")), 4);
  EXPECT_EQ(count_dropouts(*make_generator("unet_512", without, "netG")), 0);
}

TEST(ImageNetworks, TakeImagesOfTheSidesThatTheyName) {
  EXPECT_EQ(side_unit("resnet_9blocks"), 4);
  EXPECT_EQ(side_unit("unet_32"), 32);
  EXPECT_EQ(side_unit("unet_512"), 512);
  const torch::NoGradGuard no_grad;
  for (const std::int64_t layers : {1, 2, 3}) {
    const auto network = make_discriminator(layers, {.in = 1, .filters = 1, .norm = Norm::none});
    const std::int64_t side = discriminated_side_min(layers);
    EXPECT_EQ(network->forward(torch::zeros({1, 1, side, side})).sizes(), (torch::IntArrayRef{1, 1, 1, 1}));
    EXPECT_ANY_THROW(std::ignore = network->forward(torch::zeros({1, 1, side, side - 1}))) << layers;
  }
}

TEST(ImageNetworks, RefuseAnotherName) {
  for (const std::string name : {"resnet_blocks", "resnet_0blocks", "resnet_9blocksX", "resnet_xblocks", "unet_16",
                                 "resnet_101blocks", "resnet_-1blocks", "resnet_+6blocks", "resnet_6 blocks",
                                 "Xresnet_6blocks", "resnet_6block", "unet_1024", "unet_032", "unet_48", ""}) {
    try {
      std::ignore = make_generator(name, {}, "training.model.options.netG");
      ADD_FAILURE() << name;
    } catch (const InvalidJob& error) {
      EXPECT_THAT(error.what(), HasSubstr("training.model.options.netG: no generator '" + name + "' here"));
    }
  }
}

}  // namespace
}  // namespace trainyard::models
