// Samplers, and how the ranks take the samples of their orders.
#include "worker/data/sampling.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::data {
namespace {

using Ids = std::vector<std::int64_t>;

Ids ids_of(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return {dense.const_data_ptr<std::int64_t>(), dense.const_data_ptr<std::int64_t>() + dense.numel()};
}

std::string refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

/// Gives one order in all epochs, and says that it has `size` samples.
class FixedSampler final : public Sampler {
 public:
  FixedSampler(std::int64_t size, torch::Tensor order) : size_{size}, order_{std::move(order)} {}
  explicit FixedSampler(const Ids& ids)
      : FixedSampler{static_cast<std::int64_t>(ids.size()), torch::tensor(ids, torch::kInt64)} {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] torch::Tensor order(std::int64_t /*epoch*/) const override { return order_; }

 private:
  std::int64_t size_;
  torch::Tensor order_;
};

TEST(WeightedSampler, DrawsEachSampleAsOftenAsItsWeightSays) {
  constexpr std::int64_t draws = 100'000;
  const Ids parts{0, 1, 0, 5, 2, 0};  // The sum is 8.
  for (const torch::Dtype type : {torch::kInt64, torch::kFloat, torch::kDouble}) {
    const auto sampler = make_weighted_sampler(torch::tensor(parts, torch::kInt64).to(type), draws, 3);
    ASSERT_EQ(sampler->size(), draws);
    const torch::Tensor order = sampler->order(2);
    ASSERT_EQ(order.scalar_type(), torch::kInt64);
    ASSERT_EQ(order.size(0), draws);
    const Ids counts = ids_of(torch::bincount(order, {}, 6));
    ASSERT_EQ(counts.size(), parts.size());
    for (std::size_t id = 0; id < parts.size(); ++id) {
      const double expected = draws * static_cast<double>(parts[id]) / 8;
      const double deviation = std::sqrt(expected * (1 - static_cast<double>(parts[id]) / 8));
      EXPECT_LE(std::abs(static_cast<double>(counts[id]) - expected), 4 * deviation) << "sample " << id;
    }
  }
}

TEST(WeightedSampler, RepeatsAnEpochsOrderAndHasAnotherInEachEpochAndForEachSeed) {
  const auto order = [](std::int64_t seed, std::int64_t epoch) {
    return ids_of(make_weighted_sampler(torch::ones({50}), 40, seed)->order(epoch));
  };
  std::set<Ids> orders;
  for (std::int64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(order(seed, epoch), order(seed, epoch));
      orders.insert(order(seed, epoch));
    }
  }
  EXPECT_EQ(orders.size(), 16U) << "no seed has in one epoch the order of another seed in another epoch";
}

TEST(WeightedSampler, KeepsItsWeightsWhenTheTensorChanges) {
  torch::Tensor weights = torch::tensor({0.0, 1.0}, torch::kDouble);
  const auto sampler = make_weighted_sampler(weights, 20, 0);
  weights.copy_(torch::tensor({1.0, 0.0}, torch::kDouble));
  EXPECT_EQ(ids_of(sampler->order(0)), Ids(20, 1));
}

TEST(WeightedSampler, LeavesTorchsDefaultGeneratorAsItWas) {
  const auto state = [] { return at::globalContext().defaultGenerator(torch::kCPU).get_state(); };
  const torch::Tensor before = state();
  const auto sampler = make_weighted_sampler(torch::ones({5}), 5, 0);
  EXPECT_EQ(sampler->order(0).size(0), 5);
  EXPECT_TRUE(torch::equal(state(), before));
}

TEST(WeightedSampler, RefusesWeightsThatAreNoDistribution) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::string what;
    torch::Tensor weights;
    std::int64_t samples;
    std::string message;
  };
  const auto weights = [](const std::vector<double>& values) { return torch::tensor(values, torch::kDouble); };
  const std::vector<Case> cases{
      {"usual ones", weights({0, 2}), 1, ""},
      {"none", {}, 1, "a weighted sampler needs a weight for each sample, got none"},
      {"two dimensions", torch::ones({2, 3}), 1,
       "the weights of a sampler must have one dimension, the samples, got the shape [2, 3]"},
      {"complex ones", torch::ones({2}, torch::kComplexFloat), 1,
       "the weights of a sampler must be real numbers, got complex ones"},
      {"a negative one", weights({1, -0.5, 1}), 1,
       "the weights of a sampler must be finite and not negative: weight 1 is -0.5"},
      {"an infinite one", weights({1, 1, infinite}), 1,
       "the weights of a sampler must be finite and not negative: weight 2 is inf"},
      {"one that is no number", weights({no_number, 1}), 1,
       "the weights of a sampler must be finite and not negative: weight 0 is nan"},
      {"no weight at all", weights({0, 0}), 1, "the weights of a sampler must have a finite sum above 0, got 0"},
      {"an empty list", torch::empty({0}), 1, "the weights of a sampler must have a finite sum above 0, got 0"},
      {"too large a sum", weights({1e308, 1e308}), 1,
       "the weights of a sampler must have a finite sum above 0, got inf"},
      {"no samples", weights({1}), 0, "a weighted sampler needs at least 1 sample an epoch, got 0"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(refusal([&] { (void)make_weighted_sampler(c.weights, c.samples, 0); }), c.message) << c.what;
  }
}

TEST(SequentialSampler, GivesTheSamplesInTheirOrderInEachEpoch) {
  const auto sampler = make_sequential_sampler(4);
  EXPECT_EQ(sampler->size(), 4);
  for (const std::int64_t epoch : {0, 1, 7}) EXPECT_EQ(ids_of(sampler->order(epoch)), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(refusal([] { (void)make_sequential_sampler(0); }),
            "a sequential sampler needs at least 1 sample an epoch, got 0");
}

/// The samples of `rank` in one epoch, in batches of `batch_size`.
Ids epoch_of_rank(const Sampling& sampling, std::int64_t epoch, std::int64_t batch_size, const GroupRank& self) {
  const torch::Tensor order = order_of(sampling, epoch, self);
  const std::int64_t samples = epoch_samples(sampling, self.world_size);
  Ids ids;
  for (std::int64_t position = 0; position < samples;
       position = next_position(samples, position, batch_size, self.world_size)) {
    const Ids batch = ids_of(batch_samples(sampling, order, position, batch_size, self));
    ids.insert(ids.end(), batch.begin(), batch.end());
  }
  return ids;
}

TEST(Sampling, WithoutASamplerIsTheOrderOfPythonsDistributedSampler) {
  const Sampling sampling{.dataset_samples = 10, .seed = 42};
  EXPECT_EQ(epoch_samples(sampling, 4), 10);
  EXPECT_FALSE(has_epochs_of_own_size(sampling));
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const GroupRank self{.rank = rank, .world_size = 4};
    EXPECT_TRUE(torch::equal(order_of(sampling, 1, self), epoch_order(10, 42, 1)));
  }
}

TEST(Sampling, GivesEachPlaceOfASamplersOrderToOneRank) {
  // Sample 3 is there at three places.
  const FixedSampler sampler{Ids{3, 9, 3, 0, 3, 1, 5, 8, 7, 6, 2, 4}};
  const Sampling sampling{.dataset_samples = 10, .sampler = &sampler};
  EXPECT_EQ(epoch_samples(sampling, 3), 12);
  EXPECT_TRUE(has_epochs_of_own_size(sampling));
  std::multiset<std::int64_t> seen;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const Ids ids = epoch_of_rank(sampling, 0, 2, {.rank = rank, .world_size = 3});
    EXPECT_EQ(ids.size(), 4U);
    seen.insert(ids.begin(), ids.end());
  }
  const Ids order = ids_of(sampler.order(0));
  EXPECT_EQ(seen, (std::multiset<std::int64_t>{order.begin(), order.end()}));
  EXPECT_EQ(epoch_of_rank(sampling, 0, 2, {.rank = 1, .world_size = 3}), (Ids{9, 3, 8, 2}));
}

TEST(Sampling, GivesARankTheWholeOrderOfASamplerOfItsOwn) {
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const FixedSampler sampler{rank == 0 ? Ids{0, 2, 4} : Ids{1, 3, 3}};
    const Sampling sampling{.dataset_samples = 5, .sampler = &sampler, .is_shared = false};
    EXPECT_EQ(epoch_samples(sampling, 2), 6);
    EXPECT_EQ(epoch_of_rank(sampling, 0, 2, {.rank = rank, .world_size = 2}), ids_of(sampler.order(0)));
  }
}

TEST(Sampling, HasNoSamplesForARankWhoseOrderHasEndedBeforeTheLongestOne) {
  const FixedSampler sampler{Ids{0, 2, 4}};
  const Sampling sampling{.dataset_samples = 5, .sampler = &sampler, .is_shared = false, .order_sizes = {7, 3}};
  EXPECT_EQ(epoch_samples(sampling, 2), 14) << "as many places as if all ranks had 7 samples";
  const GroupRank self{.rank = 1, .world_size = 2};
  const torch::Tensor order = order_of(sampling, 0, self);
  std::vector<Ids> batches;
  for (const std::int64_t position : {0, 4, 8, 12})
    batches.push_back(ids_of(batch_samples(sampling, order, position, 2, self)));
  EXPECT_EQ(batches, (std::vector<Ids>{{0, 2}, {4}, {}, {}}));
  EXPECT_EQ(samples_in(sampling, 0, 14), 10);
  EXPECT_EQ(samples_in(sampling, 4, 8), 3) << "two of rank 0, and the last of rank 1";
  EXPECT_EQ(samples_in({.dataset_samples = 9}, 4, 8), 4);
}

TEST(Sampling, GivesEachRankAllSamplesInAnOrderOfItsOwnWhereNothingIsShared) {
  const Sampling sampling{.dataset_samples = 20, .is_shared = false, .seed = 1};
  EXPECT_EQ(epoch_samples(sampling, 3), 60);
  EXPECT_TRUE(has_epochs_of_own_size(sampling));
  std::set<Ids> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const GroupRank self{.rank = rank, .world_size = 3};
      Ids ids = epoch_of_rank(sampling, epoch, 6, self);
      EXPECT_EQ(ids, epoch_of_rank(sampling, epoch, 6, self)) << "a run that resumes repeats it";
      orders.insert(ids);
      std::ranges::sort(ids);
      EXPECT_EQ(ids, ids_of(torch::arange(20, torch::kInt64)));
    }
  }
  EXPECT_EQ(orders.size(), 9U);
}

TEST(Sampling, RefusesAnOrderThatTheTrainingSetDoesNotHave) {
  struct Case {
    std::string what;
    torch::Tensor order;
    std::string message;
  };
  const std::string must = "the sampler's order of epoch 6 must be int64 [3] on the CPU, got ";
  const std::string only = ", but the training set has only 5 samples (0 to 4)";
  const auto ids = [](const Ids& values) { return torch::tensor(values, torch::kInt64); };
  const std::vector<Case> cases{
      {"the first and the last sample", ids({0, 4, 4}), ""},
      {"one too large", ids({0, 4, 5}), "the sampler's order of epoch 6 has sample 5 at place 2" + only},
      {"one below 0", ids({0, -1, 9}), "the sampler's order of epoch 6 has sample -1 at place 1" + only},
      {"no tensor", {}, must + "no tensor"},
      {"floats", torch::zeros({3}), must + "Float [3] on cpu"},
      {"32 bits", torch::zeros({3}, torch::kInt32), must + "Int [3] on cpu"},
      {"one sample less", ids({0, 1}), must + "Long [2] on cpu"},
      {"one sample more", ids({0, 1, 2, 3}), must + "Long [4] on cpu"},
      {"two dimensions", ids({0, 1, 2}).unsqueeze(1), must + "Long [3, 1] on cpu"},
      {"another device", torch::empty({3}, torch::TensorOptions{torch::kMeta}.dtype(torch::kInt64)),
       must + "Long [3] on meta"},
  };
  for (const Case& c : cases) {
    const FixedSampler sampler{3, c.order};
    for (const bool is_shared : {true, false}) {
      const Sampling sampling{.dataset_samples = 5, .sampler = &sampler, .is_shared = is_shared};
      EXPECT_EQ(refusal([&] { (void)order_of(sampling, 6, {}); }), c.message) << c.what;
    }
  }
}

}  // namespace
}  // namespace trainyard::data
