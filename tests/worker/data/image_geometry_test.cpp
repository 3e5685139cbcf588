#include "worker/data/image_geometry.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

namespace trainyard::data {
namespace {

// The expected parts are those of torchvision's algorithm, run in Python with the same random numbers.
TEST(RandomPart, IsThatOfTorchvision) {
  struct Case {
    ImageSize size;
    RandomPart part;
    std::int64_t seed, epoch, sample;
    Box expected;
  };
  const RandomPart half{.scale = {0.5, 1}};
  const std::vector<Case> cases{
      {{500, 375}, {}, 0, 0, 0, {.left = 228, .top = 104, .size = {170, 220}}},
      {{500, 375}, {}, 0, 1, 0, {.left = 23, .top = 26, .size = {447, 349}}},
      {{500, 375}, {}, 0, 0, 1, {.left = 12, .top = 87, .size = {326, 250}}},
      {{32, 32}, {.scale = {0.9, 1}, .ratio = {1, 1}}, 3, 4, 5, {.left = 1, .top = 1, .size = {31, 31}}},
      {{1000, 10}, half, 0, 0, 0, {.left = 493, .top = 0, .size = {13, 10}}},  // No try fits.
      {{10, 1000}, half, 0, 0, 0, {.left = 0, .top = 493, .size = {10, 13}}},
      {{100, 1}, {.ratio = {0.01, 0.02}}, 0, 0, 0, {.left = 49, .top = 0, .size = {1, 1}}},  // No side is 0.
      {{1, 100}, {.ratio = {50, 100}}, 0, 0, 0, {.left = 0, .top = 49, .size = {1, 1}}},
      {{1, 1}, {}, 0, 0, 0, {.left = 0, .top = 0, .size = {1, 1}}},
  };
  for (const Case& c : cases) {
    SampleRandom random{c.seed, c.epoch, c.sample};
    EXPECT_EQ(random_part(c.size, c.part, random), c.expected) << c.size.width << " " << c.sample;
  }
}

TEST(Geometry, ScalesTheShorterSideAndTakesTheMiddleAsTorchvision) {
  EXPECT_EQ(scaled_to_side({500, 375}, 256), (ImageSize{341, 256}));
  EXPECT_EQ(scaled_to_side({375, 500}, 256), (ImageSize{256, 341}));
  EXPECT_EQ(scaled_to_side({8, 8}, 4), (ImageSize{4, 4}));
  EXPECT_EQ(middle_part({341, 256}, {224, 224}), (Box{.left = 58, .top = 16, .size = {224, 224}}));
  EXPECT_EQ(middle_part({5, 4}, {4, 4}), (Box{.left = 0, .top = 0, .size = {4, 4}})) << "a half goes to the even place";
}

// The expected pixels are those of torch.nn.functional.interpolate(mode="bilinear", antialias=True) in Python.
TEST(Resized, IsBilinearWithAntialiasing) {
  const torch::Tensor y = torch::arange(5).view({5, 1});
  const torch::Tensor x = torch::arange(7).view({1, 7});
  const torch::Tensor image = (y * 53 + x * 29 + y * x * 7).remainder(256).to(torch::kUInt8).unsqueeze(0);
  const torch::Tensor smaller =
      torch::tensor({39, 89, 148, 141, 126, 150, 115, 112, 143, 68, 145, 152}, torch::kUInt8).view({1, 3, 4});
  EXPECT_TRUE(resized(image, {4, 3}).equal(smaller)) << resized(image, {4, 3});
  const torch::Tensor larger = resized(image, {9, 8});
  EXPECT_EQ(larger.sizes(), (torch::IntArrayRef{1, 8, 9}));
  EXPECT_TRUE(larger[0][0].equal(torch::tensor({0, 19, 42, 64, 87, 110, 132, 155, 174}, torch::kUInt8))) << larger;
}

}  // namespace
}  // namespace trainyard::data
