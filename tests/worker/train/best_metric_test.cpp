#include "worker/train/watched_metric.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>

namespace trainyard::train {
namespace {

using api::BestMode;

TEST(BetterValue, FollowsTheTable) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto best = [](BestMode mode, double value) { return BestValue{.metric = "m", .mode = mode, .value = value}; };
  struct Row {
    std::string_view name;
    BestMode mode;
    observe::MetricValues values;
    std::optional<BestValue> before;
    std::optional<double> better;
  };
  const Row rows[] = {
      {"the first", BestMode::max, {{"m", 0.5}}, {}, 0.5},
      {"higher", BestMode::max, {{"m", 0.6}}, best(BestMode::max, 0.5), 0.6},
      {"lower", BestMode::max, {{"m", 0.4}}, best(BestMode::max, 0.5), {}},
      {"equal", BestMode::max, {{"m", 0.5}}, best(BestMode::max, 0.5), {}},
      {"lower where the lowest is the best", BestMode::min, {{"m", 0.4}}, best(BestMode::min, 0.5), 0.4},
      {"higher where the lowest is the best", BestMode::min, {{"m", 0.6}}, best(BestMode::min, 0.5), {}},
      {"not there", BestMode::max, {{"other", 0.9}}, {}, {}},
      {"no number", BestMode::max, {{"m", nan}}, {}, {}},
      {"not finite", BestMode::max, {{"m", infinity}}, best(BestMode::max, 0.5), {}},
      {"of another mode", BestMode::max, {{"m", 0.4}}, best(BestMode::min, 0.5), 0.4},
      {"of another metric", BestMode::max, {{"m", 0.4}}, BestValue{.metric = "other", .value = 0.5}, 0.4},
  };
  for (const Row& row : rows) {
    const api::KeepBestSpec spec{.metric = "m", .mode = row.mode};
    std::optional<BestValue> expected;
    if (row.better) expected = best(row.mode, *row.better);
    EXPECT_EQ(better_value(spec, row.values, row.before), expected) << row.name;
  }
}

}  // namespace
}  // namespace trainyard::train
