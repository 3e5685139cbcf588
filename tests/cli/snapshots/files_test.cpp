#include "cli/snapshots/files.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::cli {
namespace {

using snapshot::Over;
using snapshot::Point;

TEST(PointsCsv, HasExactNumbersAndQuotesWhatItMust) {
  EXPECT_EQ(points_csv({}), "step,name,over,value\n");
  const std::vector<Point> points = {
      {.name = "loss", .over = Over::steps, .step = 50, .value = 0.1},
      {.name = "loss", .over = Over::epoch, .step = 50, .value = 1.0 / 3},
      {.name = "a,b", .over = Over::validation, .step = 50, .value = 2},
      {.name = "say \"x\"", .over = Over::steps, .step = 50, .value = std::nan("")},
      {.name = "top", .over = Over::steps, .step = 50, .value = -std::numeric_limits<double>::infinity()},
      {.name = "\x1b[2Jx\ny", .over = Over::steps, .step = 50, .value = 0}};
  EXPECT_EQ(points_csv(points),
            "step,name,over,value\n"
            "50,loss,steps,0.1\n"
            "50,loss,epoch,0.3333333333333333\n"
            "50,\"a,b\",validation,2\n"
            "50,\"say \"\"x\"\"\",steps,nan\n"
            "50,top,steps,-inf\n"
            "50,?[2Jx?y,steps,0\n");
}

TEST(HistoryCsv, SaysWhichGenerationAValueIsOf) {
  const std::vector<snapshot::History::RunPoint> entries = {
      {.point = {.name = "loss", .over = Over::steps, .step = 50, .value = 0.5}, .generation = 2}};
  EXPECT_EQ(history_csv(entries), "step,name,over,value,generation\n50,loss,steps,0.5,2\n");
}

TEST(FileNames, AreAllDifferentAndLeadNowhere) {
  std::vector<snapshot::Image> images;
  for (const char* name : {"validation", "val/a b", "val_a_b", "../../etc/passwd", ".hidden", "\xc3\xa4", "v1.2-x"}) {
    images.push_back({.name = name, .step = 1, .width = 1, .height = 1, .png = ""});
  }
  images.push_back({.name = std::string(500, 'x'), .step = 1, .width = 1, .height = 1, .png = ""});
  EXPECT_EQ(file_names(images),
            (std::vector<std::string>{"validation.png", "val_a_b.png", "val_a_b-2.png", "_._.._etc_passwd.png",
                                      "_hidden.png", "__.png", "v1.2-x.png", std::string(200, 'x') + ".png"}));
}

}  // namespace
}  // namespace trainyard::cli
