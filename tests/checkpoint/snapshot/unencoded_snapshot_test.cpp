#include "checkpoint/snapshot/unencoded_snapshot.hpp"

#include <gtest/gtest.h>

#include "tests/checkpoint/snapshot/decode_png.hpp"
#include "tests/checkpoint/snapshot/unencoded_snapshots.hpp"

namespace trainyard::snapshot {
namespace {

using Points = std::vector<Point>;
using Names = std::vector<std::string>;

Names names_of(const UnencodedSnapshot& unencoded) {
  Names names;
  for (const UnencodedImage& image : unencoded.images) names.push_back(image.name);
  return names;
}

TEST(Merge, KeepsEveryPointAndOfEachImageTheLast) {
  UnencodedSnapshot older = an_unencoded(100);
  older.images = {an_image("a", 100, 1), an_image("b", 100, 2)};
  UnencodedSnapshot newer = an_unencoded(200);
  newer.images = {an_image("a", 200, 3)};
  UnencodedSnapshot expected = an_unencoded(200);
  expected.points = {a_loss(100), a_loss(200)};
  expected.images = {an_image("a", 200, 3), an_image("b", 100, 2)};
  EXPECT_EQ(merge(older, newer, {}), expected);
}

TEST(Merge, DropsTheOldestPointsBeyondTheLimitAndCountsThem) {
  UnencodedSnapshot older = an_unencoded(0);
  older.points = {a_loss(1), a_loss(2), a_loss(3)};
  older.dropped_points = 7;
  UnencodedSnapshot newer = an_unencoded(9);
  newer.points = {a_loss(8), a_loss(9)};
  newer.dropped_points = 1;
  struct Row {
    std::size_t points_max;
    Points expected;
    std::int64_t lost;
  };
  const Row rows[] = {
      {5, {a_loss(1), a_loss(2), a_loss(3), a_loss(8), a_loss(9)}, 8},
      {3, {a_loss(3), a_loss(8), a_loss(9)}, 10},
      {1, {a_loss(9)}, 12},
  };
  for (const Row& row : rows) {
    const UnencodedSnapshot merged = merge(older, newer, {.points_max = row.points_max});
    EXPECT_EQ(merged.points, row.expected) << row.points_max;
    EXPECT_EQ(merged.dropped_points, row.lost) << row.points_max;
  }
}

TEST(Merge, TakesOlderImagesOnlyWhileThereIsRoom) {
  UnencodedSnapshot older = an_unencoded(1);
  older.images = {an_image("a"), an_image("b"), an_image("c")};
  UnencodedSnapshot newer = an_unencoded(2);
  newer.images = {an_image("d")};
  EXPECT_EQ(names_of(merge(older, newer, {.images_max = 3})), (Names{"d", "a", "b"}));
  EXPECT_EQ(names_of(merge(older, newer, {.image_bytes_max = 12})), (Names{"d", "a"}));
  EXPECT_EQ(names_of(merge(older, newer, {.images_max = 1})), (Names{"d"}));
}

TEST(Encode, GivesImagesAsPngOfTheirGrid) {
  UnencodedSnapshot unencoded = an_unencoded(5);
  unencoded.dropped_points = 3;
  UnencodedImage colors{.name = "colors",
                        .step = 4,
                        .planes = {.images = 2, .channels = 3, .height = 1, .width = 1, .bytes = {1, 2, 3, 4, 5, 6}}};
  unencoded.images = {colors};
  const EncodedSnapshot encoded = encode(unencoded);
  EXPECT_TRUE(encoded.image_errors.empty());
  const Snapshot& snapshot = encoded.snapshot;
  EXPECT_EQ(snapshot.id, unencoded.id);
  EXPECT_EQ(snapshot.epoch, unencoded.epoch);
  EXPECT_EQ(snapshot.time, unencoded.time);
  EXPECT_EQ(snapshot.attempt, unencoded.attempt);
  EXPECT_EQ(snapshot.points, unencoded.points);
  EXPECT_EQ(snapshot.dropped_points, 3);
  ASSERT_EQ(snapshot.images.size(), 1U);
  EXPECT_EQ(snapshot.images[0].name, "colors");
  EXPECT_EQ(snapshot.images[0].step, 4);
  EXPECT_EQ(snapshot.images[0].width, 4);
  EXPECT_EQ(snapshot.images[0].height, 1);
  EXPECT_EQ(decode_png(snapshot.images[0].png), lay_out(colors.planes));
}

TEST(Encode, LeavesOutAnImageThatIsNoPngAndSaysWhich) {
  UnencodedSnapshot unencoded = an_unencoded(5);
  UnencodedImage flat{
      .name = "flat", .step = 5, .planes = {.images = 1, .channels = 1, .height = 0, .width = 3, .bytes = {}}};
  unencoded.images = {an_image("a"), flat, an_image("b")};
  const EncodedSnapshot encoded = encode(unencoded);
  ASSERT_EQ(encoded.image_errors.size(), 1U);
  EXPECT_TRUE(encoded.image_errors[0].starts_with("flat: an image of 3 x 0 pixels cannot be written"))
      << encoded.image_errors[0];
  ASSERT_EQ(encoded.snapshot.images.size(), 2U);
  EXPECT_EQ(encoded.snapshot.images[1].name, "b");
}

}  // namespace
}  // namespace trainyard::snapshot
