#include "checkpoint/snapshot/snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/format/sealed_json.hpp"

namespace trainyard::snapshot {
namespace {

Snapshot a_snapshot() {
  return {.id = {.step = 500, .generation = 2},
          .epoch = 3,
          .time = Time{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + std::chrono::seconds{7}},
          .attempt = 4,
          .points = {{.name = "loss", .over = Over::steps, .step = 450, .value = 0.1},
                     {.name = "loss", .over = Over::epoch, .step = 500, .value = 1.0 / 3},
                     {.name = "val_loss", .over = Over::validation, .step = 500, .value = 2}},
          .dropped_points = 1,
          .images = {{.name = "validation", .step = 500, .width = 3, .height = 2, .png = std::string("\x89P\0G", 4)}}};
}

nlohmann::json object_of(const Snapshot& snapshot) {
  return nlohmann::json::parse(to_text(snapshot));
}

TEST(Snapshot, IsReadBackAsItWas) {
  const auto parsed = parse_snapshot(to_text(a_snapshot()));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, a_snapshot());
}

// Programs in any language read this.
TEST(Snapshot, IsPlainJson) {
  const auto object = object_of(a_snapshot());
  EXPECT_EQ(object.at("step"), 500);
  EXPECT_EQ(object.at("epoch"), 3);
  EXPECT_EQ(object.at("generation"), 2);
  EXPECT_EQ(object.at("attempt"), 4);
  EXPECT_EQ(object.at("time"), "2026-11-21T00:00:07Z");
  EXPECT_EQ(object.at("metrics").at(0).dump(), R"({"name":"loss","over":"steps","step":450,"value":0.1})");
  EXPECT_EQ(object.at("images").at(0).dump(),
            R"({"height":2,"name":"validation","png":"iVAARw==","step":500,"width":3})");
}

TEST(Snapshot, HoldsWhatIsNoNumber) {
  Snapshot snapshot = a_snapshot();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  snapshot.points = {{.name = "a", .over = Over::steps, .step = 1, .value = std::nan("")},
                     {.name = "b", .over = Over::steps, .step = 1, .value = infinity},
                     {.name = "c", .over = Over::steps, .step = 1, .value = -infinity}};
  const auto parsed = parse_snapshot(to_text(snapshot));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(std::isnan(parsed->points[0].value));
  EXPECT_EQ(parsed->points[1].value, infinity);
  EXPECT_EQ(parsed->points[2].value, -infinity);
}

TEST(Snapshot, IsRefusedWhereverItIsTornOrABitHasChanged) {
  const std::string text = to_text(a_snapshot());
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_EQ(parse_snapshot(text.substr(0, bytes)).error().kind, ErrorKind::corrupt) << bytes;
    std::string changed = text;
    changed[bytes] = static_cast<char>(changed[bytes] ^ 1);
    EXPECT_FALSE(parse_snapshot(changed)) << changed;
  }
}

TEST(Snapshot, OfWrongFieldsIsOneError) {
  struct Row {
    std::string_view change;
    ErrorKind kind;
    std::string_view message;
  };
  const Row rows[] = {
      {R"({"version": 2})", ErrorKind::invalid, "it is of format version 2, and this program knows version 1"},
      {R"({"format": "trainyard-checkpoint"})", ErrorKind::corrupt, "it is no snapshot"},
      {R"({"format": null})", ErrorKind::corrupt, "it is no snapshot"},
      {R"({"step": "x"})", ErrorKind::corrupt, "a snapshot: "},
      {R"({"time": "yesterday"})", ErrorKind::corrupt, "yesterday"},
      {R"({"metrics": [{"name": "a"}]})", ErrorKind::corrupt, "over"},
      {R"({"metrics": [{"name": "a", "over": "life", "step": 1, "value": 1}]})", ErrorKind::corrupt,
       "nothing is taken over \"life\""},
      {R"({"images": [{"name": "a", "step": 1, "width": 1, "height": 1, "png": "?"}]})", ErrorKind::corrupt,
       "it is not base64"},
  };
  for (const Row& row : rows) {
    auto object = object_of(a_snapshot());
    object.merge_patch(nlohmann::json::parse(row.change));
    const auto parsed = parse_snapshot(checkpoint::seal(object));
    ASSERT_FALSE(parsed) << row.change;
    EXPECT_EQ(parsed.error().kind, row.kind) << row.change;
    EXPECT_THAT(parsed.error().message, testing::HasSubstr(row.message)) << row.change;
  }
}

}  // namespace
}  // namespace trainyard::snapshot
