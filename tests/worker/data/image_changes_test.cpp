#include "worker/data/image_changes.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"

namespace trainyard::data {
namespace {

Options data_options(const std::string& json) {
  return Options{json, "training.data.options"};
}

std::string option_refusal(const std::string& json, std::int64_t channels) {
  try {
    const Options options = data_options(json);
    (void)read_augmentation(options);
    (void)read_normalization(options, channels, torch::kCPU);
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

/// One pixel of the image that is cropped at (`top`, `left`) of the padded `image`, and then mirrored.
int pixel(const torch::Tensor& image, std::int64_t y, std::int64_t x) {
  const bool is_inside = y >= 0 && y < image.size(0) && x >= 0 && x < image.size(1);
  return is_inside ? image[y][x].item<int>() : 0;
}

// The places are those of SampleRandom{5, epoch, sample}: below(3), below(3), coin().
TEST(CropAndFlip, TakesThePartThatSeedEpochAndSampleSay) {
  struct Case {
    std::int64_t epoch, sample, top, left;
    bool is_mirrored;
  };
  const std::vector<Case> cases{{0, 0, 2, 0, false}, {0, 1, 1, 2, false}, {0, 2, 2, 0, true},  {0, 3, 0, 2, true},
                                {1, 0, 2, 1, true},  {1, 1, 2, 0, false}, {1, 2, 0, 0, false}, {1, 3, 2, 0, false}};
  const torch::Tensor images = torch::arange(1, 4 * 2 * 3 * 4 + 1, torch::kUInt8).view({4, 2, 3, 4});
  for (const Case& c : cases) {
    const torch::Tensor ids = torch::tensor({c.sample}, torch::kInt64);
    const Augmentation augmentation{.crop_padding = 1, .horizontal_flip = true};
    const torch::Tensor changed = crop_and_flip(images.index_select(0, ids), augmentation, ids, 5, c.epoch);
    ASSERT_EQ(changed.sizes(), (torch::IntArrayRef{1, 2, 3, 4}));
    EXPECT_EQ(changed.scalar_type(), torch::kUInt8);
    for (std::int64_t channel = 0; channel < 2; ++channel) {
      for (std::int64_t y = 0; y < 3; ++y) {
        for (std::int64_t x = 0; x < 4; ++x) {
          EXPECT_EQ(changed[0][channel][y][x].item<int>(),
                    pixel(images[c.sample][channel], c.top + y - 1, c.left + (c.is_mirrored ? 3 - x : x) - 1))
              << c.epoch << " " << c.sample;
        }
      }
    }
  }
}

TEST(CropAndFlip, ChangesASampleAlikeInEveryBatch) {
  const torch::Tensor images = make_synthetic_images(6, 0, Part::train).images;
  const Augmentation augmentation{.crop_padding = 4, .horizontal_flip = true};
  const torch::Tensor all = crop_and_flip(images, augmentation, torch::arange(6), 1, 2);
  const torch::Tensor some = torch::tensor({5, 2}, torch::kInt64);
  EXPECT_TRUE(all.index_select(0, some).equal(crop_and_flip(images.index_select(0, some), augmentation, some, 1, 2)));
  EXPECT_FALSE(all.equal(crop_and_flip(images, augmentation, torch::arange(6), 1, 3))) << "another epoch";
  EXPECT_FALSE(all.equal(crop_and_flip(images, augmentation, torch::arange(6), 2, 2))) << "another seed";
  EXPECT_TRUE(images.equal(crop_and_flip(images, {}, torch::arange(6), 1, 2))) << "nothing was asked for";
}

TEST(CropAndFlip, DoesOnlyWhatIsAskedFor) {
  const torch::Tensor images = torch::arange(1, 16 * 6 + 1, torch::kUInt8).view({16, 1, 2, 3});
  const torch::Tensor mirrored = images.flip(3);
  const torch::Tensor flipped = crop_and_flip(images, {.horizontal_flip = true}, torch::arange(16), 0, 0);
  int mirrored_count = 0;
  for (int image = 0; image < 16; ++image) {
    const bool is_mirrored = flipped[image].equal(mirrored[image]);
    EXPECT_TRUE(is_mirrored || flipped[image].equal(images[image])) << image;
    mirrored_count += is_mirrored ? 1 : 0;
  }
  EXPECT_GT(mirrored_count, 2);
  EXPECT_LT(mirrored_count, 14);
  const torch::Tensor cropped = crop_and_flip(images, {.crop_padding = 1}, torch::arange(16), 0, 0);
  for (int image = 0; image < 16; ++image) {
    const torch::Tensor padded = torch::constant_pad_nd(images[image], {1, 1, 1, 1});
    bool is_part = false;
    for (int top = 0; top < 3; ++top) {
      for (int left = 0; left < 3; ++left)
        is_part = is_part || cropped[image].equal(padded.slice(1, top, top + 2).slice(2, left, left + 3));
    }
    EXPECT_TRUE(is_part) << "a crop is not mirrored: " << image;
  }
}

TEST(Normalization, TakesMeanOrDeviationAlone) {
  const torch::Tensor images = torch::full({1, 1, 1, 1}, 3.0F);
  const auto changed = [&](const char* options) {
    return read_normalization(data_options(options), 1, torch::kCPU).apply(images.clone()).item<float>();
  };
  EXPECT_EQ(changed("{}"), 3);
  EXPECT_EQ(changed(R"({"mean": [1]})"), 2);
  EXPECT_EQ(changed(R"({"std": [2]})"), 1.5F);
}

TEST(Normalization, GivesEachChannelItsOwnNumbers) {
  const torch::Tensor images = torch::full({2, 3, 1, 1}, 12.0F);
  const Normalization normalization =
      read_normalization(data_options(R"({"mean": [2, 4, 6], "std": [1, 2, 3]})"), 3, torch::kCPU);
  EXPECT_TRUE(normalization.apply(images.clone())
                  .equal(torch::tensor({10.F, 4.F, 2.F}).view({1, 3, 1, 1}).expand({2, 3, 1, 1})));
}

TEST(ImageDataset, KeepsItsIdAndCountsItsClasses) {
  const LabeledImages part = make_synthetic_images(100, 0, Part::train);
  const ImageDataset dataset{part.images, part.labels};
  EXPECT_EQ(dataset.id(), "05109621650ec3ce") << "checkpoints of earlier versions have this id";
  EXPECT_EQ(dataset.classes(), 10);
  torch::Tensor other_image = part.images.clone();
  other_image[0].zero_();
  EXPECT_NE((ImageDataset{other_image, part.labels}.id()), dataset.id());
  torch::Tensor other_label = part.labels.clone();
  other_label[0] = (other_label[0] + 1) % 10;
  EXPECT_NE((ImageDataset{part.images, other_label}.id()), dataset.id());
}

TEST(ImageDataset, ChangesTrainingImagesAloneAndNormalisesAll) {
  const LabeledImages part = make_synthetic_images(8, 0, Part::train);
  const ImageDataset dataset{part.images, part.labels, torch::kCPU,
                             ImageChanges{.augmentation = {.crop_padding = 2, .horizontal_flip = true},
                                          .normalization = {{0.5}, {0.25}, torch::kCPU},
                                          .seed = 3}};
  const torch::Tensor ids = torch::tensor({6, 1, 4}, torch::kInt64);
  const auto normalised = [](const torch::Tensor& images) { return (images.to(torch::kFloat) / 255 - 0.5) / 0.25; };
  const torch::Tensor chosen = part.images.index_select(0, ids);
  EXPECT_TRUE(dataset.gather(ids).inputs.allclose(normalised(chosen)));
  const Batch trained = dataset.gather_in_epoch(ids, 9);
  EXPECT_TRUE(trained.inputs.allclose(
      normalised(crop_and_flip(chosen, {.crop_padding = 2, .horizontal_flip = true}, ids, 3, 9))));
  EXPECT_TRUE(trained.targets.equal(part.labels.index_select(0, ids)));
  EXPECT_TRUE(trained.ids.equal(ids));
}

TEST(ImageOptions, AreRefusedOutsideTheirBounds) {
  struct Case {
    std::string json, message;
  };
  const std::vector<Case> cases{
      {R"({"mean": [0.5, 0.5, 0.5], "std": [1, 1, 1], "randomCropPadding": 4, "horizontalFlip": true})", ""},
      {"{}", ""},
      {R"({"randomCropPadding": -1})", "randomCropPadding: must be a whole number from 0 to 256, got -1"},
      {R"({"horizontalFlip": 1})", "horizontalFlip: must be true or false, got 1"},
      {R"({"mean": [0.5]})", "mean: must have a number for each of the 3 channels, got 1"},
      {R"({"std": [1, 1]})", "std: must have a number for each of the 3 channels, got 2"},
      {R"({"std": [1, 0, 1]})", "std[1]: must be a number from 1e-06 to 1000, got 0"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(option_refusal(c.json, 3), c.message.empty() ? "" : "training.data.options." + c.message) << c.json;
  }
}

}  // namespace
}  // namespace trainyard::data
