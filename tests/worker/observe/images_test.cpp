#include "worker/observe/images.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

namespace trainyard::observe {
namespace {

using testing::HasSubstr;

TEST(CheckImage, TakesOneOrSeveralImagesOfBytesOrFloats) {
  const std::vector<std::vector<std::int64_t>> shapes = {{1, 28, 28}, {3, 1, 1}, {16, 3, 2, 5}, {256, 1, 1, 8192}};
  for (const auto type : {torch::kByte, torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    for (const auto& shape : shapes) {
      EXPECT_TRUE(check_image("a/b c", torch::zeros(shape, type))) << type << torch::IntArrayRef{shape};
    }
  }
}

TEST(CheckImage, NamesWhatIsNoImageInOneSentence) {
  const auto zeros = [](std::vector<std::int64_t> shape) { return torch::zeros(shape); };
  const std::vector<std::pair<torch::Tensor, std::string>> cases = {
      {zeros({28, 28}), "this one is Float [28, 28]"},
      {zeros({2, 28, 28}), "this one is Float [2, 28, 28]"},
      {zeros({28, 28, 3}), "this one is Float [28, 28, 3]"},
      {zeros({1, 1, 3, 4, 4}), "this one is Float [1, 1, 3, 4, 4]"},
      {zeros({0, 1, 4, 4}), "[0, 1, 4, 4]"},
      {zeros({1, 0, 4}), "[1, 0, 4]"},
      {zeros({257, 1, 1, 1}), "[257, 1, 1, 1]"},
      {zeros({1, 8193, 1}), "[1, 8193, 1]"},
      {torch::zeros({1, 4, 4}, torch::kInt64), "this one is Long [1, 4, 4]"},
      {torch::zeros({1, 4, 4}, torch::kBool), "this one is Bool [1, 4, 4]"},
      {zeros({1, 4, 4}).to_sparse(), "this one is not dense"},
      {torch::Tensor{}, "this one is no tensor"},
  };
  for (const auto& [image, what] : cases) {
    const auto checked = check_image("samples", image);
    ASSERT_FALSE(checked) << what;
    EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
    EXPECT_THAT(checked.error().message, HasSubstr("log_image(\"samples\"): an image is [C, H, W], or [N, C, H, W]"));
    EXPECT_THAT(checked.error().message, HasSubstr(what));
    EXPECT_EQ(checked.error().message.find('\n'), std::string::npos);
  }
}

TEST(CheckImage, WantsANameOfOneLine) {
  for (const std::string& name : {std::string{}, std::string{"a\nb"}, std::string(201, 'x')}) {
    EXPECT_EQ(check_image(name, torch::zeros({1, 2, 2})).error().kind, ErrorKind::invalid) << name;
  }
}

TEST(CheckName, TakesOneLineWithoutControlCharacters) {
  for (const std::string& name :
       {std::string{"a"}, std::string{"a b "}, std::string{"g/\xC3\xA4"}, std::string(200, 'x')})
    EXPECT_TRUE(check_name(name)) << name;
  for (const std::string& name : {std::string{}, std::string{" a"}, std::string{"a\tb"}, std::string{"a\r"},
                                  std::string{"a\x7f"}, std::string("a\0b", 3), std::string(201, 'x')}) {
    const auto checked = check_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
    EXPECT_THAT(checked.error().message, testing::EndsWith(std::to_string(name.size()) + " bytes"));
  }
}

TEST(CheckImage, NamesTheCallWhereTheNameIsWrong) {
  EXPECT_THAT(check_image("", torch::zeros({1, 2, 2})).error().message, testing::StartsWith("log_image: a name is"));
}

/// Counts the images that it takes.
class ImageCount final : public ImageSink {
 public:
  void log_image(std::string_view name, const torch::Tensor& /*image*/) override { names.emplace_back(name); }
  std::vector<std::string> names;
};

TEST(ImageSinks, GiveEachImageToAllThatThereAre) {
  ImageCount first, second;
  ImageSinks sinks;
  sinks.log_image("to no one", torch::zeros({1, 2, 2}));
  for (ImageSink* sink :
       {static_cast<ImageSink*>(&first), static_cast<ImageSink*>(nullptr), static_cast<ImageSink*>(&second)})
    sinks.add(sink);
  sinks.log_image("a", torch::zeros({1, 2, 2}));
  EXPECT_THAT(first.names, testing::ElementsAre("a"));
  EXPECT_THAT(second.names, testing::ElementsAre("a"));
}

TEST(ToImageBytes, CutsOffWhatIsOutsideAndRounds) {
  const torch::Tensor floats =
      torch::tensor({0.0F, 1.0F, 0.5F, -3.0F, 7.0F, std::nanf(""), INFINITY, -INFINITY}).view({1, 2, 4});
  const torch::Tensor expected = torch::tensor({0, 255, 128, 0, 255, 0, 255, 0}, torch::kByte).view({1, 1, 2, 4});
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kHalf}) {
    const torch::Tensor bytes = to_image_bytes(floats.to(type));
    EXPECT_TRUE(bytes.equal(expected)) << bytes;
  }
}

TEST(ToImageBytes, IsACopyInTheOrderOfTheShape) {
  torch::Tensor images = torch::randint(0, 256, {2, 4, 5, 3}, torch::kByte).permute({0, 3, 1, 2});
  const torch::Tensor before = images.clone();
  const torch::Tensor bytes = to_image_bytes(images);
  EXPECT_TRUE(bytes.is_contiguous());
  images.zero_();
  EXPECT_TRUE(bytes.equal(before));
  torch::Tensor floats = before.to(torch::kFloat).div(255).requires_grad_();
  const torch::Tensor converted = to_image_bytes(floats);
  EXPECT_TRUE(converted.is_contiguous() && converted.equal(before) && !converted.requires_grad());
}

}  // namespace
}  // namespace trainyard::observe
