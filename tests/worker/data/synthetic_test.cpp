#include "worker/data/synthetic.hpp"

#include <gtest/gtest.h>

#include "worker/data/image_dataset.hpp"

namespace trainyard::data {
namespace {

TEST(SyntheticImages, AreEqualForEqualSeeds) {
  const LabeledImages one = make_synthetic_images(50, 3, 0);
  const LabeledImages two = make_synthetic_images(50, 3, 0);
  EXPECT_TRUE(torch::equal(one.images, two.images));
  EXPECT_TRUE(torch::equal(one.labels, two.labels));
}

TEST(SyntheticImages, DifferBySeedAndByPart) {
  const LabeledImages train = make_synthetic_images(50, 3, 0);
  EXPECT_FALSE(torch::equal(train.images, make_synthetic_images(50, 4, 0).images));
  EXPECT_FALSE(torch::equal(train.images, make_synthetic_images(50, 3, 1).images));
}

TEST(SyntheticImages, OfOneClassHaveOnePatternInBothParts) {
  const LabeledImages train = make_synthetic_images(4000, 3, 0);
  const LabeledImages validation = make_synthetic_images(4000, 3, 1);
  const auto mean_of_class = [](const LabeledImages& part, std::int64_t label) {
    return part.images.index({part.labels == label}).to(torch::kFloat).mean(0);
  };
  const float same = (mean_of_class(train, 2) - mean_of_class(validation, 2)).abs().mean().item<float>();
  const float other = (mean_of_class(train, 2) - mean_of_class(train, 5)).abs().mean().item<float>();
  EXPECT_LT(same * 5, other);
}

TEST(ImageDataset, GathersBatchesInTheOrderAskedFor) {
  const LabeledImages part = make_synthetic_images(20, 0, 0);
  const ImageDataset dataset{part.images, part.labels};
  const Batch batch = dataset.gather(torch::tensor({7, 3}, torch::kInt64));
  EXPECT_EQ(batch.size(), 2);
  EXPECT_TRUE(torch::equal(batch.inputs[0], part.images[7].to(torch::kFloat) / 255));
  EXPECT_TRUE(torch::equal(batch.targets, torch::stack({part.labels[7], part.labels[3]})));
}

}  // namespace
}  // namespace trainyard::data
