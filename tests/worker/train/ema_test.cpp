#include "worker/train/ema.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>

namespace trainyard::train {
namespace {

TEST(Ema, IsTheExponentialMovingAverageOfTheSteps) {
  const torch::Tensor weight = torch::full({2}, 1.0).requires_grad_();
  const torch::Tensor half = torch::full({1}, 2.0, torch::kBFloat16);
  Ema ema{{{"weight", weight}, {"count", torch::ones({1}, torch::kInt64)}, {"half", half}}, 0.5};
  for (const double value : {3.0, 5.0}) {
    weight.detach().fill_(value);
    ema.update();
  }
  const NamedTensors state = ema.state();
  ASSERT_EQ(state.size(), 2U) << "an average of whole numbers is none";
  EXPECT_EQ(state[0].first, "weight");
  EXPECT_TRUE(torch::equal(state[0].second, torch::full({2}, 3.5))) << "1, then 2, then 3.5";
  EXPECT_EQ(state[1].second.scalar_type(), torch::kFloat);
  ema.reset();
  EXPECT_TRUE(torch::equal(ema.state()[0].second, torch::full({2}, 5.0)));
}

TEST(Ema, OfA16BitParameterMovesByStepsThatItsTypeWouldRoundAway) {
  const torch::Tensor weight = torch::full({1}, 1.0, torch::kBFloat16);
  Ema ema{{{"weight", weight}}, 0.999};
  weight.fill_(1.5);
  for (int step = 0; step < 3'000; ++step) ema.update();
  EXPECT_NEAR(ema.state()[0].second.item<double>(), 1.475, 0.001);
  ema.with_average([&] { EXPECT_EQ(weight.item<double>(), 1.4765625) << "the nearest bfloat16"; });
  EXPECT_EQ(weight.item<double>(), 1.5);
  EXPECT_NEAR(ema.state()[0].second.item<double>(), 1.475, 0.001) << "lending does not round the average";
}

TEST(Ema, LendsItsValuesToTheParametersAndTakesThemBackAlsoAfterAnException) {
  const torch::Tensor weight = torch::full({1}, 1.0);
  Ema ema{{{"weight", weight}}, 0.5};
  weight.fill_(3.0);
  ema.update();
  double lent = 0.0;
  ema.with_average([&] { lent = weight.item<double>(); });
  EXPECT_EQ(lent, 2.0);
  EXPECT_EQ(weight.item<double>(), 3.0);
  EXPECT_THROW(ema.with_average([] { throw std::runtime_error{"the validation fails"}; }), std::runtime_error);
  EXPECT_EQ(weight.item<double>(), 3.0);
  EXPECT_EQ(ema.state()[0].second.item<double>(), 2.0);
}

TEST(Ema, IsSavedByTheNamesOfTheParametersAndInPartsWhereTheseAreInParts) {
  const torch::Tensor whole = torch::ones({2}), rows = torch::ones({1});
  const Ema ema{{{"whole", whole}, {"rows", rows}}, 0.5, {{"rows", {.row_begin = 3, .row_count = 4}}}};
  const auto entries = ema.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "ema.whole");
  EXPECT_EQ(entries[0].placement, checkpoint::Placement::replicated);
  EXPECT_FALSE(entries[0].shard.has_value());
  EXPECT_EQ(entries[1].name, "ema.rows");
  EXPECT_EQ(entries[1].placement, checkpoint::Placement::sharded);
  ASSERT_TRUE(entries[1].shard.has_value());
  EXPECT_EQ(entries[1].shard->row_begin, 3);
  EXPECT_EQ(entries[1].shard->row_count, 4);
  for (const auto& entry : entries) {
    EXPECT_TRUE(entry.is_steady) << entry.name;
    EXPECT_FALSE(entry.must_be_finite) << entry.name << ": the parameters are looked at";
  }
}

}  // namespace
}  // namespace trainyard::train
