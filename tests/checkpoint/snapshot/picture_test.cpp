#include "checkpoint/snapshot/picture.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>

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

}  // namespace
}  // namespace trainyard::snapshot
