#include "worker/observe/metric_sums.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/observe/metric_sinks.hpp"

namespace trainyard::observe {
namespace {

torch::Tensor scalar(double value) {
  return torch::tensor(value);
}

TEST(MetricSums, ReduceOverBatchesAndRanksAsAskedFor) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    const double mine = rank.rank == 0 ? 1.0 : 5.0;
    MetricSums sums;
    for (const double value : {mine, mine + 1}) {
      sums.add("mean", scalar(value), 1.0, {});
      sums.add("sum", scalar(value), 7.0, {.reduce = Reduce::sum});
      sums.add("min", scalar(value), 7.0, {.reduce = Reduce::min});
      sums.add("max", scalar(value), 7.0, {.reduce = Reduce::max});
      sums.add("of rank zero", scalar(value), 1.0, {.rank_zero_only = true});
    }
    const auto values = sums.reduce(*rank.communicator);
    ASSERT_TRUE(values.has_value());
    EXPECT_EQ(*values, (MetricValues{{"mean", 3.5}, {"sum", 14.0}, {"min", 1.0}, {"max", 6.0}, {"of rank zero", 1.5}}));
  });
}

TEST(MetricSums, SendEachRanksNoteToAllRanks) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    MetricSums sums;
    if (rank.rank == 1) sums.add("loss", scalar(4.0), 1.0, {});
    const auto reduced = sums.reduce_with_note(*rank.communicator, rank.rank == 0 ? "" : "the note of rank 1");
    ASSERT_TRUE(reduced.has_value());
    EXPECT_EQ(reduced->notes, (std::vector<std::string>{"", "the note of rank 1"}));
    EXPECT_EQ(reduced->values, (MetricValues{{"loss", 4.0}}));
  });
}

TEST(MetricSums, WeighMeansByTheBatchesSizes) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  sums.add("accuracy", scalar(1.0), 30, {});
  sums.add("accuracy", scalar(0.0), 10, {});
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"accuracy", 0.75}}));
}

TEST(MetricSums, CountAMetricThatOnlyOneRankLogged) {
  fakes::run_ranks(3, [](fakes::RankThread& rank) {
    MetricSums sums;
    if (rank.rank == 2) sums.add("seldom seen", scalar(4.0), 2.0, {});
    EXPECT_EQ(*sums.reduce(*rank.communicator), (MetricValues{{"seldom seen", 4.0}}));
  });
}

TEST(MetricSums, BeginAfreshAfterEachReduction) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  sums.add("loss", scalar(1.0), 1, {});
  ASSERT_TRUE(sums.reduce(alone).has_value());
  sums.add("loss", scalar(3.0), 1, {});
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"loss", 3.0}}));
  EXPECT_EQ(*sums.reduce(alone), MetricValues{});
}

/// The message of the std::invalid_argument that `act` throws.
std::string refusal_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(MetricSums, RefuseANameThatIsLoggedInTwoWays) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  sums.add("score", scalar(2.0), 10.0, {.reduce = Reduce::max});
  EXPECT_EQ(
      refusal_of([&] { sums.add("score", scalar(3.0), 10.0, {}); }),
      "log(\"score\"): the metric is logged as Reduce::max in one place and as Reduce::mean in another: give each a "
      "name of its own");
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"score", 2.0}}));
  EXPECT_NE(refusal_of([&] { sums.add("score", scalar(3.0), 10.0, {}); }), "nothing was refused") << "in another line";
}

TEST(TrainingMetrics, RefuseTheTrainersNamesWhoeverLogsFirst) {
  const std::string why = ": the trainer logs a metric of this name itself; choose another";
  TrainingMetrics metrics;
  for (const char* name : {"loss", "samplesPerSecond", "stepTimes/forward"})
    EXPECT_EQ(refusal_of([&] { metrics.log(name, scalar(1.0), {}); }), fmt::format("log(\"{}\")", name) + why);
  metrics.log_own("loss", scalar(1.0), {});
  metrics.log_own("lr", scalar(1.0), {});
  EXPECT_EQ(refusal_of([&] { metrics.log("lr", scalar(1.0), {}); }), "log(\"lr\")" + why);
  metrics.log("g_loss", scalar(1.0), {.on_step = false, .on_epoch = true});
  EXPECT_EQ(refusal_of([&] { metrics.log_own("g_loss", scalar(1.0), {}); }), "log(\"g_loss\")" + why);
  metrics.log("grad_norm", scalar(1.0), {});
  checkpoint::SingleCommunicator alone;
  ASSERT_TRUE(metrics.steps().reduce(alone).has_value()) << "a line in between changes nothing";
  EXPECT_EQ(refusal_of([&] { metrics.log_own("grad_norm", scalar(1.0), {}); }), "log(\"grad_norm\")" + why);
}

TEST(ValidationMetrics, TakeTheTrainersNames) {
  checkpoint::SingleCommunicator alone;
  ValidationMetrics metrics;
  metrics.log("loss", scalar(4.0), {});
  EXPECT_EQ(*metrics.sums().reduce(alone), (MetricValues{{"loss", 4.0}}));
}

TEST(MetricSums, KeepWhatIsNotANumber) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    MetricSums sums;
    for (const Reduce reduce : {Reduce::mean, Reduce::min, Reduce::max}) {
      sums.add(std::to_string(static_cast<int>(reduce)), scalar(rank.rank == 0 ? nan : 1.0), 1.0, {.reduce = reduce});
    }
    const auto values = sums.reduce(*rank.communicator);
    ASSERT_TRUE(values.has_value());
    for (const auto& [name, value] : *values) EXPECT_TRUE(std::isnan(value)) << name;
  });
}

TEST(MetricSums, DoNotChangeWhenTheValueDoesLater) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  torch::Tensor value = torch::tensor(2.0, torch::kDouble);
  sums.add("count", value, 1.0, {.reduce = Reduce::sum});
  value.zero_();
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"count", 2.0}}));
}

}  // namespace
}  // namespace trainyard::observe
