#include "worker/train/snapshot_taker.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <optional>

#include "checkpoint/snapshot/history.hpp"
#include "tests/checkpoint/snapshot/decode_png.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::train {
namespace {

using snapshot::Over;
using snapshot::Point;
using snapshot::Snapshot;
using Strings = std::vector<std::string>;

class ASnapshotTaker : public testing::Test {
 protected:
  SnapshotTaker& open(snapshot::Limits limits = {}) {
    taker_.emplace(std::make_unique<fakes::MemoryStore>(objects), clock, 4, limits);
    taker_->begin(2, 10);
    return *taker_;
  }
  /// Takes a snapshot, and reads it back.
  std::optional<Snapshot> take() {
    taker_->take(3);
    EXPECT_TRUE(taker_->finish(std::chrono::minutes{1}));
    fakes::MemoryStore store{objects};
    const auto shelf = snapshot::list_snapshots(store);
    if (!shelf || shelf->snapshots.empty()) return std::nullopt;
    return snapshot::read_snapshot(store, shelf->snapshots.back().id).value();
  }
  static Strings names_of(const Snapshot& snapshot) {
    Strings names;
    for (const auto& image : snapshot.images) names.push_back(image.name);
    return names;
  }

  fakes::MemoryObjects objects;
  fakes::FakeClock clock;

 private:
  std::optional<SnapshotTaker> taker_;
};

TEST_F(ASnapshotTaker, GathersWhatIsShownBetweenTwoSnapshots) {
  SnapshotTaker& taker = open();
  taker.set_step(11);
  taker.add({{"loss", 0.5}}, Over::steps);
  taker.log_image("a", torch::zeros({1, 2, 3}));
  taker.set_step(12);
  taker.add({{"loss", 0.25}, {"top", 1}}, Over::epoch);
  taker.log_image("a", torch::ones({1, 2, 3}));
  const auto taken = take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->id, (snapshot::SnapshotId{.step = 12, .generation = 2}));
  EXPECT_EQ(taken->epoch, 3);
  EXPECT_EQ(taken->attempt, 4);
  EXPECT_EQ(taken->time, clock.now());
  EXPECT_EQ(taken->points, (std::vector<Point>{{.name = "loss", .over = Over::steps, .step = 11, .value = 0.5},
                                               {.name = "loss", .over = Over::epoch, .step = 12, .value = 0.25},
                                               {.name = "top", .over = Over::epoch, .step = 12, .value = 1}}));
  ASSERT_EQ(names_of(*taken), Strings{"a"});
  EXPECT_EQ(taken->images[0].step, 12);
  EXPECT_EQ(snapshot::decode_png(taken->images[0].png).pixels, std::vector<std::uint8_t>(6, 255));

  taker.set_step(13);
  taker.add({{"loss", 0.125}}, Over::steps);
  const auto next = take();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->points.size(), 1U);
  EXPECT_TRUE(next->images.empty());
}

TEST_F(ASnapshotTaker, MakesNoneWhereNothingIsNew) {
  SnapshotTaker& taker = open();
  EXPECT_FALSE(take());
  taker.set_step(11);
  taker.add({{"loss", 0.5}}, Over::steps);
  EXPECT_TRUE(take());
  taker.add({{"late", 1}}, Over::steps);  // For the same step: the next snapshot has it, and none is overwritten.
  take();
  EXPECT_EQ(objects.objects.size(), 1U);
  taker.set_step(12);
  EXPECT_EQ(take()->points.front().name, "late");
}

TEST_F(ASnapshotTaker, CopiesAnImageSoThatItMayChange) {
  SnapshotTaker& taker = open();
  taker.set_step(11);
  torch::Tensor image = torch::full({3, 1, 1}, 7, torch::kByte);
  taker.log_image("a", image);
  image.zero_();
  const auto taken = take();
  ASSERT_TRUE(taken);
  EXPECT_EQ(snapshot::decode_png(taken->images[0].png).pixels, std::vector<std::uint8_t>(3, 7));
}

TEST_F(ASnapshotTaker, LeavesOutImagesForWhichThereIsNoRoom) {
  SnapshotTaker& taker = open({.points_max = 10, .images_max = 2, .image_bytes_max = 20});
  const auto image = [](std::int64_t pixels) { return torch::zeros({1, 1, pixels}); };
  taker.set_step(11);
  taker.log_image("a", image(5));
  taker.log_image("too large", image(16));
  taker.log_image("b", image(15));
  taker.log_image("one too many", image(1));
  EXPECT_EQ(names_of(*take()), (Strings{"a", "b"}));
  taker.set_step(12);
  taker.log_image("a", image(20));
  taker.log_image("a", image(5));  // Replaces the previous image, and uses its room.
  taker.log_image("b", image(15));
  taker.log_image("b", image(16));  // The older image is not shown in its place.
  EXPECT_EQ(names_of(*take()), Strings{"a"});
}

TEST_F(ASnapshotTaker, IsFullAfterThousandsOfPoints) {
  SnapshotTaker& taker = open();
  for (int i = 0; i < 9'999; ++i) taker.add({{"loss", 0.5}}, Over::steps);
  EXPECT_FALSE(taker.is_full());
  taker.add({{"loss", 0.5}}, Over::steps);
  EXPECT_TRUE(taker.is_full());
  take();
  EXPECT_FALSE(taker.is_full());
}

TEST_F(ASnapshotTaker, WarnsOnceOfAnImageForWhichThereIsNoRoom) {
  SnapshotTaker& taker = open({.points_max = 10, .images_max = 1, .image_bytes_max = 20});
  testing::internal::CaptureStderr();
  for (const std::int64_t step : {11, 12}) {
    taker.set_step(step);
    for (const char* name : {"a", "b", "c"}) taker.log_image(name, torch::zeros({1, 2, 2}));
    EXPECT_EQ(names_of(*take()), Strings{"a"});
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("the snapshot has no room for it");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("has no room", first + 20), std::string::npos) << log;
  EXPECT_NE(log.find("image=b  step=11  imagesMax=1  bytesMax=20"), std::string::npos) << log;
}

}  // namespace
}  // namespace trainyard::train
