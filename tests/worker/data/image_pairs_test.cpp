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
