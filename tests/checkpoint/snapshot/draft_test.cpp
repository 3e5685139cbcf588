#include "checkpoint/snapshot/draft.hpp"

#include <gtest/gtest.h>

#include "tests/checkpoint/snapshot/decode_png.hpp"
#include "tests/checkpoint/snapshot/drafts.hpp"

namespace trainyard::snapshot {
namespace {

using Points = std::vector<Point>;
using Names = std::vector<std::string>;

Names names_of(const Draft& draft) {
  Names names;
  for (const DraftImage& image : draft.images) names.push_back(image.name);
  return names;
}

TEST(Merge, KeepsEveryPointAndOfEachImageTheLast) {
  Draft older = a_draft(100);
  older.images = {an_image("a", 100, 1), an_image("b", 100, 2)};
  Draft newer = a_draft(200);
  newer.images = {an_image("a", 200, 3)};
  Draft expected = a_draft(200);
  expected.points = {a_loss(100), a_loss(200)};
  expected.images = {an_image("a", 200, 3), an_image("b", 100, 2)};
  EXPECT_EQ(merge(older, newer, {}), expected);
}

TEST(Merge, DropsTheOldestPointsBeyondTheLimitAndCountsThem) {
  Draft older = a_draft(0);
  older.points = {a_loss(1), a_loss(2), a_loss(3)};
  older.lost_points = 7;
  Draft newer = a_draft(9);
  newer.points = {a_loss(8), a_loss(9)};
  newer.lost_points = 1;
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
    const Draft merged = merge(older, newer, {.points_max = row.points_max});
    EXPECT_EQ(merged.points, row.expected) << row.points_max;
    EXPECT_EQ(merged.lost_points, row.lost) << row.points_max;
  }
}

TEST(Merge, TakesOlderImagesOnlyWhileThereIsRoom) {
  Draft older = a_draft(1);
  older.images = {an_image("a"), an_image("b"), an_image("c")};
  Draft newer = a_draft(2);
  newer.images = {an_image("d")};
  EXPECT_EQ(names_of(merge(older, newer, {.images_max = 3})), (Names{"d", "a", "b"}));
  EXPECT_EQ(names_of(merge(older, newer, {.image_bytes_max = 12})), (Names{"d", "a"}));
  EXPECT_EQ(names_of(merge(older, newer, {.images_max = 1})), (Names{"d"}));
}

TEST(Encode, GivesImagesAsPngOfTheirGrid) {
  Draft draft = a_draft(5);
  draft.lost_points = 3;
  DraftImage colors{.name = "colors",
                    .step = 4,
                    .planes = {.images = 2, .channels = 3, .height = 1, .width = 1, .bytes = {1, 2, 3, 4, 5, 6}}};
  draft.images = {colors};
  const Encoded encoded = encode(draft);
  EXPECT_TRUE(encoded.refused.empty());
  const Snapshot& snapshot = encoded.snapshot;
  EXPECT_EQ(snapshot.id, draft.id);
  EXPECT_EQ(snapshot.epoch, draft.epoch);
  EXPECT_EQ(snapshot.time, draft.time);
  EXPECT_EQ(snapshot.attempt, draft.attempt);
  EXPECT_EQ(snapshot.points, draft.points);
  EXPECT_EQ(snapshot.lost_points, 3);
  ASSERT_EQ(snapshot.images.size(), 1U);
  EXPECT_EQ(snapshot.images[0].name, "colors");
  EXPECT_EQ(snapshot.images[0].step, 4);
  EXPECT_EQ(snapshot.images[0].width, 4);
  EXPECT_EQ(snapshot.images[0].height, 1);
  EXPECT_EQ(decode_png(snapshot.images[0].png), lay_out(colors.planes));
}

}  // namespace
}  // namespace trainyard::snapshot
