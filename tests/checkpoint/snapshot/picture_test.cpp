#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string_view>

#include "checkpoint/snapshot/picture.hpp"
#include "tests/checkpoint/snapshot/decode_png.hpp"

namespace trainyard::snapshot {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(LayOut, PutsChannelsSideBySideAndImagesIntoAGrid) {
  struct Row {
    std::string_view name;
    Planes planes;
    Picture expected;
  };
  const Row rows[] = {
      {"gray as it is",
       {.images = 1, .channels = 1, .height = 2, .width = 3, .bytes = {1, 2, 3, 4, 5, 6}},
       {.channels = 1, .height = 2, .width = 3, .pixels = {1, 2, 3, 4, 5, 6}}},
      {"colours by pixel",
       {.images = 1, .channels = 3, .height = 1, .width = 2, .bytes = {1, 2, 10, 20, 100, 200}},
       {.channels = 3, .height = 1, .width = 2, .pixels = {1, 10, 100, 2, 20, 200}}},
      {"two images with black between",
       {.images = 2, .channels = 1, .height = 2, .width = 1, .bytes = {1, 2, 3, 4}},
       {.channels = 1, .height = 2, .width = 4, .pixels = {1, 0, 0, 3, 2, 0, 0, 4}}},
  };
  for (const Row& row : rows) EXPECT_EQ(lay_out(row.planes), row.expected) << row.name;
}

TEST(LayOut, BeginsANewRowAfterEightImages) {
  Planes planes{.images = 9, .channels = 1, .height = 1, .width = 1, .bytes = Bytes(9)};
  std::iota(planes.bytes.begin(), planes.bytes.end(), std::uint8_t{1});
  const Picture picture = lay_out(planes);
  EXPECT_EQ(picture.width, 8 + 7 * 2);
  EXPECT_EQ(picture.height, 2 + 2);
  Bytes expected(static_cast<std::size_t>(picture.width * picture.height));
  for (std::size_t i = 0; i < 8; ++i) expected[i * 3] = static_cast<std::uint8_t>(i + 1);
  expected[static_cast<std::size_t>(3 * picture.width)] = 9;
  EXPECT_EQ(picture.pixels, expected);
}

Picture noise(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Picture picture{.channels = channels, .height = height, .width = width, .pixels = {}};
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < channels * height * width; ++i) {
    state = state * 1664525 + 1013904223;
    picture.pixels.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  return picture;
}

TEST(EncodePng, IsReadBackByLibpng) {
  for (const std::int64_t channels : {1, 3}) {
    for (const auto& [height, width] : {std::pair{1, 1}, std::pair{1, 300}, std::pair{28, 28}, std::pair{211, 7}}) {
      const Picture picture = noise(channels, height, width);
      const auto file = encode_png(picture);
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(decode_png(*file), picture) << channels << " channels, " << height << " x " << width;
    }
  }
}

TEST(EncodePng, IsSmallForAPlainImage) {
  const Picture plain{.channels = 3, .height = 500, .width = 500, .pixels = std::vector<std::uint8_t>(750'000, 7)};
  const auto file = encode_png(plain);
  ASSERT_TRUE(file);
  EXPECT_LT(file->size(), 10'000U);
  EXPECT_THAT(*file, testing::StartsWith("\x89PNG\r\n"));
}

}  // namespace
}  // namespace trainyard::snapshot
