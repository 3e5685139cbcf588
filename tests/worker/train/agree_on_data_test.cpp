#include "worker/train/agree_on_data.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/thread_group.hpp"
#include "worker/data/image_dataset.hpp"

namespace trainyard::train {
namespace {

DataSummary summary(std::int64_t samples, std::int64_t classes = 0, const std::string& id = "") {
  return {.samples = samples, .classes = classes, .id = id};
}

TEST(CompareData, NamesTheFirstRankThatDiffersAndBothSets) {
  struct Case {
    std::string what;
    std::vector<RankData> ranks;
    std::string message;
  };
  const std::string advice =
      ". Every rank must read the same files: compare the data's folder on the nodes of these two ranks, "
      "and see that open_datasets() opens the same samples on every rank";
  const RankData usual{.train = summary(9, 3, "a"), .validation = summary(4, 3, "b")};
  const std::vector<Case> cases{
      {"one rank", {usual}, ""},
      {"equal ranks", {usual, usual, usual}, ""},
      {"equal ranks that validate nothing", {{summary(9), {}}, {summary(9), {}}}, ""},
      {"one sample more",
       {usual, usual, {summary(10, 3, "a"), summary(4, 3, "b")}},
       "the training set of rank 2 is not that of rank 0: rank 0 has 9 samples, 3 classes, the id a; rank 2 has 10 "
       "samples, 3 classes, the id a" +
           advice},
      {"another class",
       {{summary(9, 3), {}}, {summary(9, 4), {}}, {summary(9, 5), {}}},
       "the training set of rank 1 is not that of rank 0: rank 0 has 9 samples, 3 classes; rank 1 has 9 samples, 4 "
       "classes" +
           advice},
      {"one class",
       {{summary(9, 1), {}}, {summary(8, 1), {}}},
       "the training set of rank 1 is not that of rank 0: rank 0 has 9 samples, 1 classes; rank 1 has 8 samples, 1 "
       "classes" +
           advice},
      {"another order",
       {{summary(9, 0, "a"), {}}, {summary(9, 0, "c"), {}}},
       "the training set of rank 1 is not that of rank 0: rank 0 has 9 samples, the id a; rank 1 has 9 samples, the id "
       "c" +
           advice},
      {"no validation",
       {usual, {summary(9, 3, "a"), {}}},
       "the validation set of rank 1 is not that of rank 0: rank 0 has 4 samples, 3 classes, the id b; rank 1 has "
       "none" +
           advice},
      {"other validation",
       {{summary(9), summary(4)}, {summary(9), summary(5)}},
       "the validation set of rank 1 is not that of rank 0: rank 0 has 4 samples; rank 1 has 5 samples" + advice},
      {"other test samples",
       {{.test = summary(4)}, {.test = summary(5)}},
       "the test set of rank 1 is not that of rank 0: rank 0 has 4 samples; rank 1 has 5 samples" + advice},
  };
  for (const Case& c : cases) {
    const auto compared = compare_data(c.ranks, false);
    EXPECT_EQ(compared ? "" : compared.error().message, c.message) << c.what;
    if (!compared) {
      EXPECT_EQ(compared.error().kind, ErrorKind::io) << c.what;
    }
  }
}

TEST(CompareData, NamesTheRanksWhoseSamplersHaveOtherSizes) {
  const auto ranks_of = [](const std::vector<std::optional<std::int64_t>>& sizes) {
    std::vector<RankData> ranks;
    for (const auto& size : sizes) ranks.push_back({.train = summary(9), .sampler_samples = size});
    return ranks;
  };
  EXPECT_TRUE(compare_data(ranks_of({5, 5, 5}), false));
  const auto one = compare_data(ranks_of({5, 5, 4}), false);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().kind, ErrorKind::invalid);
  EXPECT_EQ(one.error().message,
            "the samplers of open_datasets() differ: rank 0 has 5 samples an epoch; rank 2 has 4 samples an epoch. "
            "Sampler::size() must be equal on all ranks, unless training.strategy.join is true");
  const auto several = compare_data(ranks_of({{}, 5, {}, 6}), false);
  ASSERT_FALSE(several);
  EXPECT_EQ(
      several.error().message,
      "the samplers of open_datasets() differ: rank 0 has no sampler; rank 1 has 5 samples an epoch; rank 3 has 6 "
      "samples an epoch. Sampler::size() must be equal on all ranks, unless training.strategy.join is true");
  std::vector<std::optional<std::int64_t>> many(13, 4);
  many[0] = 5;
  const auto cut = compare_data(ranks_of(many), false);
  ASSERT_FALSE(cut);
  EXPECT_NE(cut.error().message.find("; rank 8 has 4 samples an epoch; 4 more ranks differ. "), std::string::npos)
      << cut.error().message;
}

TEST(CompareData, TakesTheOrdersOfRanksThatJoinAsTheyAre) {
  const auto sizes_of = [](const std::vector<std::optional<std::int64_t>>& sizes) {
    std::vector<RankData> ranks;
    for (const auto& size : sizes) ranks.push_back({.train = summary(9), .sampler_samples = size});
    return compare_data(ranks, /*joins=*/true);
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes_of({5, 12, 4}), (Sizes{5, 12, 4}));
  EXPECT_EQ(sizes_of({5, {}, 4}), (Sizes{5, 9, 4})) << "a rank without a sampler takes all samples";
  EXPECT_EQ(compare_data(std::vector<RankData>{{.train = summary(9), .sampler_samples = 5}}, /*joins=*/false), Sizes{});
  const auto other_data = compare_data(std::vector<RankData>{{.train = summary(9)}, {.train = summary(8)}}, true);
  ASSERT_FALSE(other_data);
  EXPECT_EQ(other_data.error().kind, ErrorKind::io);
}

std::unique_ptr<Dataset> images(std::int64_t samples) {
  return std::make_unique<data::ImageDataset>(torch::zeros({samples, 1, 2, 2}, torch::kUInt8),
                                              torch::zeros({samples}, torch::kInt64));
}

class Streams final : public IterableDataset {
 public:
  explicit Streams(bool is_interleaved) : is_interleaved_{is_interleaved} {}
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
  [[nodiscard]] bool is_interleaved() const override { return is_interleaved_; }

 private:
  bool is_interleaved_;
};

Datasets streams(bool is_interleaved) {
  return {.train = nullptr, .iterable_train = std::make_unique<Streams>(is_interleaved)};
}

/// How each rank's agree_on_data() ends, where rank r has the data sets `sets_of(r)`.
std::vector<std::string> outcomes_of(std::int64_t world_size,
                                     const std::function<Datasets(std::int64_t rank)>& sets_of) {
  std::vector<std::string> outcomes(static_cast<std::size_t>(world_size));
  fakes::ThreadGroup group{world_size};
  group.run([&](checkpoint::Communicator& communicator) {
    const Datasets datasets = sets_of(communicator.rank());
    const auto agreed = agree_on_data(datasets, /*joins=*/false, communicator);
    outcomes[static_cast<std::size_t>(communicator.rank())] = agreed ? "agreed" : agreed.error().message;
  });
  return outcomes;
}

TEST(AgreeOnData, EndsEqualOnAllRanks) {
  struct Case {
    std::string what;
    std::function<Datasets(std::int64_t rank)> sets_of;
    std::string outcome;  // How it begins.
  };
  const std::vector<Case> cases{
      {"equal sets of each kind",
       [](std::int64_t) { return Datasets{.train = images(3), .validation = images(2), .test = images(1)}; }, "agreed"},
      {"only a training set", [](std::int64_t) { return Datasets{.train = images(3), .validation = nullptr}; },
       "agreed"},
      {"only a test set",
       [](std::int64_t) { return Datasets{.train = nullptr, .validation = nullptr, .test = images(3)}; }, "agreed"},
      {"another training set",
       [](std::int64_t rank) { return Datasets{.train = images(rank == 1 ? 4 : 3), .validation = images(2)}; },
       "the training set of rank 1 is not that of rank 0: rank 0 has 3 samples"},
      {"another validation set",
       [](std::int64_t rank) { return Datasets{.train = images(3), .validation = images(rank == 2 ? 5 : 2)}; },
       "the validation set of rank 2 is not that of rank 0: rank 0 has 2 samples"},
      {"another test set",
       [](std::int64_t rank) {
         return Datasets{.train = images(3), .validation = images(2), .test = images(rank == 2 ? 5 : 2)};
       },
       "the test set of rank 2 is not that of rank 0: rank 0 has 2 samples"},
      {"a test set that rank 0 has not",
       [](std::int64_t rank) {
         return Datasets{.train = images(3), .validation = nullptr, .test = rank == 1 ? images(5) : nullptr};
       },
       "the test set of rank 1 is not that of rank 0: rank 0 has none"},
      {"streams", [](std::int64_t) { return streams(false); }, "agreed"},
      {"streams that one rank deals out in another way", [](std::int64_t rank) { return streams(rank == 1); },
       "the training set of rank 1 is not that of rank 0: rank 0 has a stream; rank 1 has an interleaved stream"},
      {"streams and samples",
       [](std::int64_t rank) { return rank == 1 ? Datasets{.train = images(3)} : streams(false); },
       "the training set of rank 1 is not that of rank 0: rank 0 has a stream; rank 1 has 3 samples"}};
  for (const Case& c : cases) {
    const auto outcomes = outcomes_of(3, c.sets_of);
    EXPECT_TRUE(outcomes[0].starts_with(c.outcome)) << c.what << ": " << outcomes[0];
    EXPECT_EQ(outcomes, std::vector<std::string>(3, outcomes[0])) << c.what;
  }
}

TEST(AgreeOnData, ComparesTheSamplersOfTheRanks) {
  std::vector<std::string> outcomes(2);
  fakes::ThreadGroup group{2};
  group.run([&](checkpoint::Communicator& communicator) {
    Datasets datasets{.train = images(3), .sampler = make_sequential_sampler(2 + communicator.rank())};
    const auto agreed = agree_on_data(datasets, /*joins=*/false, communicator);
    outcomes[static_cast<std::size_t>(communicator.rank())] = agreed ? "agreed" : agreed.error().message;
  });
  EXPECT_EQ(outcomes[0],
            "the samplers of open_datasets() differ: rank 0 has 2 samples an epoch; rank 1 has 3 samples an epoch. "
            "Sampler::size() must be equal on all ranks, unless training.strategy.join is true");
  EXPECT_EQ(outcomes[1], outcomes[0]);
}

TEST(AgreeOnData, TellsAllRanksThatJoinTheSizesOfTheirOrders) {
  std::vector<std::vector<std::int64_t>> sizes(3);
  fakes::ThreadGroup group{3};
  group.run([&](checkpoint::Communicator& communicator) {
    Datasets datasets{.train = images(3), .sampler = make_sequential_sampler(7 - communicator.rank())};
    const auto agreed = agree_on_data(datasets, /*joins=*/true, communicator);
    if (agreed) sizes[static_cast<std::size_t>(communicator.rank())] = *agreed;
  });
  for (const auto& of_rank : sizes) EXPECT_EQ(of_rank, (std::vector<std::int64_t>{7, 6, 5}));
}

TEST(AgreeOnData, HasNoSizesForRanksThatJoinWithStreams) {
  fakes::ThreadGroup group{2};
  group.run([&](checkpoint::Communicator& communicator) {
    const auto agreed = agree_on_data(streams(true), /*joins=*/true, communicator);
    EXPECT_TRUE(agreed && agreed->empty());
  });
}

}  // namespace
}  // namespace trainyard::train
