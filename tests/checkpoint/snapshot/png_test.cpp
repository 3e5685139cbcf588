#include "checkpoint/snapshot/png.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/snapshot/decode_png.hpp"

namespace trainyard::snapshot {
namespace {

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
