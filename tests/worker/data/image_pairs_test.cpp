#include "worker/data/image_pairs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/data/pictures.hpp"
#include "worker/data/open_data.hpp"

namespace trainyard::data {
namespace {

using fakes::png_of;
using testing::HasSubstr;

class ImagePairsTest : public testing::Test {
 protected:
  ImagePairsTest() {
    for (const char* part : {"train", "val"}) std::filesystem::create_directory(folder_.file(part));
    // Each panel is the one before, brighter by 10.
    const torch::Tensor panel = torch::arange(6 * 6 * 3, torch::kInt32).view({6, 6, 3});
    panels_ = torch::cat({panel, panel + 10, panel + 20}, 1).to(torch::kUInt8);
    folder_.write("train/a.png", png_of(panels_));
    folder_.write("val/a.png", png_of(panels_));
  }
  [[nodiscard]] Result<Datasets> open(const std::string& options) const {
    DataSource source;
    source.folder = folder_.path();
    source.options = Options{options, "training.data.options"};
    return open_data(source, api::DataFormat::image_pairs);
  }
  /// The panel `number` as a batch has it.
  [[nodiscard]] torch::Tensor panel(std::int64_t number) const {
    return panels_.slice(1, 6 * number, 6 * number + 6).permute({2, 0, 1}).to(torch::kFloat) / 255;
  }

  fakes::TemporaryFolder folder_;
  torch::Tensor panels_;
  torch::Tensor first_ = torch::zeros({1}, torch::kInt64);
};

TEST_F(ImagePairsTest, DividesAPictureIntoItsPanels) {
  const auto datasets = open(R"({"panels": 3, "size": 6})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->loader_threads(), 2);
  const Batch batch = datasets->train->gather(first_);
  EXPECT_TRUE(batch.inputs.equal(panel(0).unsqueeze(0)));
  EXPECT_TRUE(batch.targets.equal(torch::stack({panel(1), panel(2)}).unsqueeze(0)));
  const Batch other = open(R"({"panels": 3, "size": 6, "input": 2})")->validation->gather(first_);
  EXPECT_TRUE(other.inputs.equal(panel(2).unsqueeze(0)));
  EXPECT_TRUE(other.targets.equal(torch::stack({panel(0), panel(1)}).unsqueeze(0)));
}

TEST_F(ImagePairsTest, MakesSquaresOf256UnlessTold) {
  const auto datasets = open("{}");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->gather(first_).inputs.sizes(), (torch::IntArrayRef{1, 3, 256, 256}));
}

TEST_F(ImagePairsTest, ChangesAllPanelsOfASampleAlike) {
  const auto datasets = open(R"({"panels": 3, "size": 4, "resize": 6, "horizontalFlip": true})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  bool has_differed = false;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Batch batch = datasets->train->gather_in_epoch(first_, epoch);
    ASSERT_EQ(batch.inputs.sizes(), (torch::IntArrayRef{1, 3, 4, 4}));
    EXPECT_TRUE(batch.targets[0][0].allclose(batch.inputs[0] + 10 / 255.0)) << epoch;
    EXPECT_TRUE(batch.inputs.equal(datasets->train->gather_in_epoch(first_, epoch).inputs)) << epoch;
    has_differed = has_differed || !batch.inputs.equal(datasets->train->gather_in_epoch(first_, epoch + 1).inputs);
  }
  EXPECT_TRUE(has_differed);
  EXPECT_TRUE(datasets->train->gather(first_).inputs.equal(panel(0).slice(1, 1, 5).slice(2, 1, 5).unsqueeze(0)));
}

TEST_F(ImagePairsTest, MirrorsHalfOfTheSamplesOfTraining) {
  const auto datasets = open(R"({"panels": 3, "size": 6, "horizontalFlip": true})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  int mirrored = 0;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    const Batch batch = datasets->train->gather_in_epoch(first_, epoch);
    const bool is_mirrored = batch.inputs[0].equal(panel(0).flip(2));
    EXPECT_TRUE(is_mirrored || batch.inputs[0].equal(panel(0))) << epoch;
    EXPECT_TRUE(batch.targets[0][1].equal(is_mirrored ? panel(2).flip(2) : panel(2))) << epoch;
    mirrored += is_mirrored ? 1 : 0;
  }
  EXPECT_GT(mirrored, 10);
  EXPECT_LT(mirrored, 30);
  const auto plain = open(R"({"panels": 3, "size": 6})");
  for (std::int64_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_TRUE(plain->train->gather_in_epoch(first_, epoch).inputs[0].equal(panel(0))) << epoch;
}

TEST_F(ImagePairsTest, ReadsItsOtherOptions) {
  const auto gray = open(R"({"panels": 3, "size": 6, "channels": 1, "mean": [0.5], "std": [0.25]})");
  ASSERT_TRUE(gray.has_value()) << gray.error().message;
  const Batch batch = gray->train->gather(first_);
  EXPECT_EQ(batch.inputs.sizes(), (torch::IntArrayRef{1, 1, 6, 6}));
  EXPECT_EQ(batch.targets.sizes(), (torch::IntArrayRef{1, 2, 1, 6, 6}));
  const torch::Tensor plain = open(R"({"panels": 3, "size": 6, "channels": 1})")->train->gather(first_).targets;
  EXPECT_TRUE(batch.targets.allclose((plain - 0.5) / 0.25, 1e-5, 1e-5));
  std::filesystem::remove_all(folder_.file("val"));
  const auto alone = open(R"({"panels": 3, "size": 6, "validation": false})");
  ASSERT_TRUE(alone.has_value()) << alone.error().message;
  EXPECT_EQ(alone->validation, nullptr);
  EXPECT_EQ(alone->train->size(), 1);
}

TEST_F(ImagePairsTest, ChangesTrainingImagesByTheJobsSeed) {
  const auto inputs = [&](std::int64_t seed) {
    DataSource source;
    source.folder = folder_.path();
    source.seed = seed;
    source.options = Options{R"({"panels": 3, "size": 4, "resize": 64})", "training.data.options"};
    return open_data(source, api::DataFormat::image_pairs)->train->gather_in_epoch(first_, 0).inputs;
  };
  EXPECT_TRUE(inputs(1).equal(inputs(1)));
  EXPECT_FALSE(inputs(1).equal(inputs(2)));
}

TEST_F(ImagePairsTest, HasAnIdOfItsNames) {
  const std::string id = open(R"({"panels": 3})")->train->id();
  EXPECT_NE(id, "");
  EXPECT_EQ(open(R"({"panels": 3, "size": 6})")->train->id(), id);
  std::filesystem::rename(folder_.file("train/a.png"), folder_.file("train/b.png"));
  EXPECT_NE(open(R"({"panels": 3})")->train->id(), id);
}

TEST_F(ImagePairsTest, NamesWhatCannotBeDivided) {
  const auto datasets = open(R"({"panels": 4, "size": 6})");
  try {
    (void)datasets->train->gather(first_);
    FAIL();
  } catch (const InvalidJob& error) {
    EXPECT_EQ(error.what(), "the picture " + folder_.file("train/a.png").string() +
                                " is 18 pixels wide, which 4 equal panels are not");
  }
  std::filesystem::remove(folder_.file("train/a.png"));
  EXPECT_EQ(open("{}").error().message, folder_.file("train").string() + " has no .jpg, .jpeg or .png file");
  std::filesystem::remove_all(folder_.file("val"));
  EXPECT_THAT(open("{}").error().message, HasSubstr("has neither a folder val nor validation"));
}

TEST_F(ImagePairsTest, RefusesOptionsOutsideTheirBounds) {
  struct Case {
    std::string json, message;
  };
  const std::vector<Case> cases{
      {R"({"panels": 1})", "panels: must be a whole number from 2 to 16, got 1"},
      {R"({"panels": 17})", "panels: must be a whole number from 2 to 16, got 17"},
      {R"({"size": 4097})", "size: must be a whole number from 1 to 4096, got 4097"},
      {R"({"channels": 2})", "channels: must be 1 (gray) or 3 (colours), got 2"},
      {R"({"panels": 3, "input": 3})", "input: must be a whole number from 0 to 2, got 3"},
      {R"({"size": 256, "resize": 255})", "resize: must be a whole number from 256 to 8192, got 255"},
  };
  for (const Case& c : cases) {
    try {
      (void)open(c.json);
      FAIL() << c.json;
    } catch (const InvalidJob& error) {
      EXPECT_EQ(error.what(), "training.data.options." + c.message);
    }
  }
}

}  // namespace
}  // namespace trainyard::data
