#include "worker/strategy/bucket_assignment.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>

namespace trainyard::strategy {
namespace {

TEST(AssignBuckets, FillsBucketsFromTheLastParameterToTheFirstAndClosesEachAtItsLimit) {
  std::vector<torch::Tensor> parameters;
  for (const std::int64_t elements : {100, 10, 30, 5, 5}) parameters.push_back(torch::zeros({elements}));
  const auto buckets = assign_buckets(parameters, {.first_bytes = 40, .bytes = 200});
  EXPECT_EQ(buckets, (std::vector<BucketIndices>{{4, 3}, {2, 1, 0}}));
}

TEST(AssignBuckets, KeepsDtypesApartAndOrdersBucketsByTheirFirstGradient) {
  const std::vector<torch::Tensor> parameters{torch::zeros({4}), torch::zeros({4}, torch::kDouble), torch::zeros({4}),
                                              torch::zeros({4}, torch::kDouble)};
  EXPECT_EQ(assign_buckets(parameters), (std::vector<BucketIndices>{{3, 1}, {2, 0}}));
}

TEST(AssignBuckets, SendsEachGradientAloneWhereTheLimitIsZero) {
  const std::vector<torch::Tensor> parameters{torch::zeros({4}), torch::zeros({1}), torch::zeros({2})};
  EXPECT_EQ(assign_buckets(parameters, {.first_bytes = 0, .bytes = 0}), (std::vector<BucketIndices>{{2}, {1}, {0}}));
}

TEST(AssignBuckets, GivesNothingForNoParameters) {
  EXPECT_TRUE(assign_buckets({}).empty());
}

TEST(AssignBuckets, IsThatOfC10d) {
  std::vector<torch::Tensor> parameters;
  for (const std::int64_t elements : {288, 32, 18432, 64, 1382400, 600, 72000, 120, 300000, 10}) {
    parameters.push_back(torch::zeros({elements}));
  }
  const BucketLimits limits{.first_bytes = 1 << 20, .bytes = 2 << 20};
  std::vector<torch::Tensor> reversed{parameters.rbegin(), parameters.rend()};
  std::vector<std::int64_t> indices;
  for (std::size_t index = parameters.size(); index-- > 0;) indices.push_back(static_cast<std::int64_t>(index));
  const auto expected = std::get<0>(c10d::compute_bucket_assignment_by_size(
      reversed, {static_cast<std::size_t>(limits.first_bytes), static_cast<std::size_t>(limits.bytes)}, {}, indices));
  EXPECT_EQ(assign_buckets(parameters, limits), expected);
}

}  // namespace
}  // namespace trainyard::strategy
