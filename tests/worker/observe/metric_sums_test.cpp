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
  for (const std::int64_t bad_rank : {0, 1, 2}) {
    fakes::run_ranks(3, [bad_rank](fakes::RankThread& rank) {
      MetricSums sums;
      for (const Reduce reduce : {Reduce::mean, Reduce::sum, Reduce::min, Reduce::max}) {
        const double value = rank.rank == bad_rank ? nan : 1.0;
        sums.add(std::to_string(static_cast<int>(reduce)), scalar(value), 1.0, {.reduce = reduce});
      }
      const auto values = sums.reduce(*rank.communicator);
      ASSERT_TRUE(values.has_value());
      for (const auto& [name, value] : *values) EXPECT_TRUE(std::isnan(value)) << name << ", rank " << bad_rank;
    });
  }
}

TEST(MetricSums, DoNotChangeWhenTheValueDoesLater) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  torch::Tensor value = torch::tensor(2.0, torch::kDouble);
  sums.add("count", value, 1.0, {.reduce = Reduce::sum});
  value.zero_();
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"count", 2.0}}));
}

TEST(MetricSums, AddUpNarrowTypesWithoutRounding) {
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  for (const double value : {16'777'216.0, 1.0})
    sums.add("float", torch::tensor(value, torch::kFloat), 1.0, {.reduce = Reduce::sum});
  for (const double value : {60'000.0, 60'000.0})
    sums.add("half", torch::tensor(value, torch::kHalf), 1.0, {.reduce = Reduce::sum});
  for (const std::int64_t value : {1, 2}) sums.add("whole", torch::tensor({value}, torch::kLong), 1.0, {});
  EXPECT_EQ(*sums.reduce(alone), (MetricValues{{"float", 16'777'217.0}, {"half", 120'000.0}, {"whole", 1.5}}));
}

TEST(MetricSums, SendEachValueToTheBit) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const MetricValues values{{"a third", 1.0 / 3.0}, {"tiny", 4e-308}, {"huge", -1e300}, {"infinite", -infinity}};
  fakes::run_ranks(2, [&values](fakes::RankThread& rank) {
    MetricSums sums;
    for (const auto& [name, value] : values)
      sums.add(name, torch::tensor(value, torch::kDouble), 1.0, {.rank_zero_only = true});
    EXPECT_EQ(*sums.reduce(*rank.communicator), values);
  });
}

TEST(MetricSums, ShowTheBeginningOfALongTextThatAnotherRankSent) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    if (rank.rank == 0) {
      (void)rank.communicator->all_gather(std::string(300, 'x'));
      return;
    }
    MetricSums sums;
    const auto reduced = sums.reduce(*rank.communicator);
    ASSERT_FALSE(reduced);
    EXPECT_TRUE(reduced.error().message.starts_with("rank 0 sent '" + std::string(200, 'x') + "' where rank 1"))
        << reduced.error().message;
  });
}

TEST(TrainingMetrics, GoIntoTheLinesOfTheStepsAndOfTheEpochAsTheyAskFor) {
  checkpoint::SingleCommunicator alone;
  TrainingMetrics metrics;
  for (const std::int64_t samples : {3, 1}) {
    metrics.set_batch_size(samples);
    const torch::Tensor value = scalar(static_cast<double>(samples));
    metrics.log("of the steps", value, {});
    metrics.log("of the epoch", value, {.on_step = false, .on_epoch = true});
    metrics.log("of both", value, {.on_epoch = true});
  }
  EXPECT_EQ(*metrics.steps().reduce(alone), (MetricValues{{"of the steps", 2.5}, {"of both", 2.5}}));
  EXPECT_EQ(*metrics.epoch().reduce(alone), (MetricValues{{"of the epoch", 2.5}, {"of both", 2.5}}));
}

}  // namespace
}  // namespace trainyard::observe
