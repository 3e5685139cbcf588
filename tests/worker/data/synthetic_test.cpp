#include "worker/data/synthetic.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <tuple>
#include <vector>

#include "worker/data/image_dataset.hpp"

namespace trainyard::data {
namespace {

TEST(SyntheticImages, AreEqualForEqualSeeds) {
  const LabeledImages one = make_synthetic_images(50, 3, Part::train);
  const LabeledImages two = make_synthetic_images(50, 3, Part::train);
  EXPECT_TRUE(torch::equal(one.images, two.images));
  EXPECT_TRUE(torch::equal(one.labels, two.labels));
}

TEST(SyntheticImages, DifferBySeedAndByPart) {
  const LabeledImages train = make_synthetic_images(50, 3, Part::train);
  EXPECT_FALSE(torch::equal(train.images, make_synthetic_images(50, 4, Part::train).images));
  EXPECT_FALSE(torch::equal(train.images, make_synthetic_images(50, 3, Part::validation).images));
}

TEST(SyntheticImages, OfOneClassHaveOnePatternInBothParts) {
  const LabeledImages train = make_synthetic_images(4000, 3, Part::train);
  const LabeledImages validation = make_synthetic_images(4000, 3, Part::validation);
  const auto mean_of_class = [](const LabeledImages& part, std::int64_t label) {
    return part.images.index({part.labels == label}).to(torch::kFloat).mean(0);
  };
  const float same = (mean_of_class(train, 2) - mean_of_class(validation, 2)).abs().mean().item<float>();
  const float other = (mean_of_class(train, 2) - mean_of_class(train, 5)).abs().mean().item<float>();
  EXPECT_LT(same * 5, other);
}

TEST(SyntheticImages, HaveTheShapeAndTheClassesAskedFor) {
  const LabeledImages part = make_synthetic_images(200, 0, Part::train, {.channels = 3, .size = 30, .classes = 100});
  EXPECT_EQ(part.images.sizes(), (std::vector<std::int64_t>{200, 3, 30, 30}));
  EXPECT_GE(part.labels.min().item<std::int64_t>(), 0);
  EXPECT_LT(part.labels.max().item<std::int64_t>(), 100);
  EXPECT_GT(part.labels.max().item<std::int64_t>(), 50);
}

TEST(SyntheticImages, AreRefusedWhenTheyWouldFillTheMemory) {
  try {
    std::ignore = make_synthetic_images(60'000, 0, Part::train, {.channels = 3, .size = 224, .classes = 1000});
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(),
                 "training.data.samples: 60000 synthetic samples of 150528 bytes each would take more than 8 GiB of "
                 "memory; set it to 57065 or less");
  }
}

TEST(SyntheticImages, NamesTheClassesWhosePatternsWouldFillTheMemory) {
  try {
    std::ignore = make_synthetic_images(10, 0, Part::train, {.channels = 3, .size = 224, .classes = 1'000'000});
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_STREQ(error.what(),
                 "training.data.options.classes: the patterns of 1000000 classes would take more than 8 GiB of memory; "
                 "set it to 57065 or less");
  }
}

TEST(SyntheticImages, AreRefusedOutsideTheirBounds) {
  const std::string from_1 = "must be a whole number from 1 to ", from_2 = "must be a whole number from 2 to ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"channels": 0})", "channels: " + from_1 + "1024, got 0"},
      {R"({"channels": 1025})", "channels: " + from_1 + "1024, got 1025"},
      {R"({"size": 0})", "size: " + from_1 + "8192, got 0"},
      {R"({"size": 8193})", "size: " + from_1 + "8192, got 8193"},
      {R"({"classes": 1})", "classes: " + from_2 + "1000000, got 1"},
      {R"({"classes": 1000001})", "classes: " + from_2 + "1000000, got 1000001"},
  };
  for (const auto& [json, message] : cases) {
    try {
      std::ignore = read_synthetic_images(Options{json, "training.data.options"});
      ADD_FAILURE() << json;
    } catch (const InvalidJob& error) {
      EXPECT_EQ(error.what(), "training.data.options." + message);
    }
  }
  const SyntheticImages least = read_synthetic_images(Options{R"({"channels": 1, "size": 1, "classes": 2})", ""});
  EXPECT_EQ(std::tie(least.channels, least.size, least.classes), std::make_tuple(1, 1, 2));
}

TEST(SyntheticImages, HaveDarkAndBrightPixels) {
  const torch::Tensor images = make_synthetic_images(500, 0, Part::train).images;
  EXPECT_EQ(images.min().item<int>(), 0);
  EXPECT_GT(images.max().item<int>(), 245);
}

DataSource token_source(const std::string& options) {
  DataSource source;
  source.options = Options{options, "training.data.options"};
  return source;
}

TEST(SyntheticTokens, HaveTargetsOneTokenLaterInTheVocabulary) {
  const DataSource source = token_source(R"({"sequenceLength": 16, "vocabulary": 100})");
  const auto tokens = make_synthetic_tokens(source, 30, Part::train);
  EXPECT_EQ(tokens->size(), 30);
  EXPECT_EQ(tokens->classes(), 100);
  const Batch batch = tokens->gather(torch::tensor({7, 3}, torch::kInt64));
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{2, 16}));
  EXPECT_EQ(batch.inputs.scalar_type(), torch::kInt64);
  EXPECT_TRUE(torch::equal(batch.inputs.slice(1, 1), batch.targets.slice(1, 0, 15)));
  EXPECT_TRUE(torch::equal(batch.inputs[1], tokens->gather(torch::tensor({3}, torch::kInt64)).inputs[0]));
  const torch::Tensor all = tokens->gather(torch::arange(30)).inputs;
  EXPECT_GE(all.min().item<std::int64_t>(), 0);
  EXPECT_LT(all.max().item<std::int64_t>(), 100);
  EXPECT_GT(std::get<0>(torch::_unique(all.select(1, 0))).numel(), 5) << "sequences begin with different tokens";
  const torch::Tensor steps = (batch.targets - batch.inputs).remainder(100);
  EXPECT_TRUE((steps == 33).logical_or(steps == 34).all().item<bool>()) << "a token is followed by one of two";
}

TEST(SyntheticTokens, AreEqualForEqualSourcesAndDifferByPart) {
  const DataSource source = token_source(R"({"sequenceLength": 16})");
  const torch::Tensor ids = torch::arange(5);
  const auto tokens = make_synthetic_tokens(source, 5, Part::train)->gather(ids).inputs;
  EXPECT_TRUE(torch::equal(tokens, make_synthetic_tokens(source, 5, Part::train)->gather(ids).inputs));
  EXPECT_FALSE(torch::equal(tokens, make_synthetic_tokens(source, 5, Part::validation)->gather(ids).inputs));
  DataSource other = source;
  other.seed = 7;
  EXPECT_FALSE(torch::equal(tokens, make_synthetic_tokens(other, 5, Part::train)->gather(ids).inputs));
  EXPECT_EQ(make_synthetic_tokens(other, 5, Part::train)->id(), "synthetic-tokens-5-16-50257-7")
      << "checkpoints of earlier versions have this id";
}

TEST(SyntheticTokens, AreRefusedOutsideTheirBounds) {
  for (const char* options :
       {R"({"sequenceLength": 0})", R"({"sequenceLength": 1048577})", R"({"sequenceLength": 1, "vocabulary": 1})",
        R"({"sequenceLength": 1, "vocabulary": 10000001})"}) {
    EXPECT_THROW(std::ignore = make_synthetic_tokens(token_source(options), 1, Part::train), InvalidJob) << options;
  }
  const DataSource least = token_source(R"({"sequenceLength": 1, "vocabulary": 2})");
  EXPECT_EQ(make_synthetic_tokens(least, 1, Part::train)->gather(torch::arange(1)).inputs.numel(), 1);
}

TEST(SyntheticTokens, AreAskedForByTheLengthOfASequence) {
  EXPECT_TRUE(asks_for_tokens(Options{R"({"sequenceLength": 16})"}));
  EXPECT_FALSE(asks_for_tokens(Options{R"({"sequenceLength": null, "vocabulary": 16})"}));
}

TEST(SyntheticTokens, AreRefusedWhenTheyWouldFillTheMemory) {
  EXPECT_THROW(std::ignore = make_synthetic_tokens(token_source(R"({"sequenceLength": 1048576})"), 60'000, Part::train),
               InvalidJob);
}

TEST(ImageDataset, GathersBatchesInTheOrderAskedFor) {
  const LabeledImages part = make_synthetic_images(20, 0, Part::train);
  const ImageDataset dataset{part.images, part.labels};
  const Batch batch = dataset.gather(torch::tensor({7, 3}, torch::kInt64));
  EXPECT_EQ(batch.size(), 2);
  EXPECT_TRUE(torch::equal(batch.inputs[0], part.images[7].to(torch::kFloat) / 255));
  EXPECT_TRUE(torch::equal(batch.targets, torch::stack({part.labels[7], part.labels[3]})));
}

}  // namespace
}  // namespace trainyard::data
