#include "worker/strategy/model_agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>

#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/strategy/packed_tensors.hpp"

namespace trainyard::strategy {
namespace {

TEST(Checksum, ChangesWithAnyBit) {
  torch::Tensor values = torch::zeros({1001});
  const std::uint64_t before = checksum({{"values", values}});
  for (const std::int64_t place : {0, 1, 500, 999, 1000}) {
    torch::Tensor changed = values.clone();
    changed[place] = std::numeric_limits<float>::denorm_min();
    EXPECT_NE(checksum({{"values", changed}}), before) << "element " << place;
    EXPECT_EQ(checksum({{"values", values}}), before);
  }
  EXPECT_NE(checksum({{"values", -values}}), before) << "minus zero has other bits than zero";
}

TEST(AgreeOnValues, NamesTheRanksThatDifferFromRankZero) {
  fakes::run_ranks(3, [](fakes::RankThread& rank) {
    const NamedTensors tensors{{"values", torch::full({4}, rank.rank == 1 ? 2.0 : 1.0)}};
    const auto agreed = agree_on_values(tensors, *rank.communicator);
    ASSERT_FALSE(agreed.has_value());
    EXPECT_EQ(agreed.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(agreed.error().message, testing::HasSubstr("parameters of rank 1 are not bit-equal to rank 0's"));
  });
}

TEST(AgreeOnLayout, NamesWhatOneRankHasBeyondTheOther) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    NamedTensors tensors{{"first", torch::zeros({1})}};
    if (rank.rank == 1) tensors.emplace_back("second", torch::zeros({}, torch::kInt64));
    const auto agreed = agree_on_layout(tensors, *rank.communicator);
    ASSERT_FALSE(agreed.has_value());
    EXPECT_THAT(agreed.error().message,
                testing::HasSubstr("tensor 1 is 'nothing' on rank 0 and 'second Long []' on rank 1"));
  });
}

TEST(AgreeOnLayout, ComparesNamesTypesAndShapesButNotValues) {
  struct Case {
    std::string name;
    torch::Tensor tensor;
    std::string message;
  };
  const std::string ours = "the ranks' models differ: tensor 0 is 'w Float [2, 3]' on rank 0 and ";
  const Case cases[] = {{"w", torch::ones({2, 3}), ""},
                        {"v", torch::zeros({2, 3}), ours + "'v Float [2, 3]' on rank 1"},
                        {"w", torch::zeros({2, 3}, torch::kDouble), ours + "'w Double [2, 3]' on rank 1"},
                        {"w", torch::zeros({3, 2}), ours + "'w Float [3, 2]' on rank 1"},
                        {"w", torch::zeros({6}), ours + "'w Float [6]' on rank 1"}};
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    for (const auto& [name, tensor, message] : cases) {
      const NamedTensors own =
          rank.rank == 0 ? NamedTensors{{"w", torch::zeros({2, 3})}} : NamedTensors{{name, tensor}};
      const auto agreed = agree_on_layout(own, *rank.communicator);
      EXPECT_EQ(agreed ? "" : agreed.error().message, message);
      if (!agreed) {
        EXPECT_EQ(agreed.error().kind, ErrorKind::invalid);
      }
    }
  });
}

TEST(AgreeOnValues, GivesTheChecksumOfAllOrNamesEachRankThatDiffers) {
  fakes::run_ranks(4, [](fakes::RankThread& rank) {
    const NamedTensors equal{{"values", torch::ones({4})}};
    const auto agreed = agree_on_values(equal, *rank.communicator);
    ASSERT_TRUE(agreed) << agreed.error().message;
    EXPECT_EQ(*agreed, checksum(equal));
    const NamedTensors own{{"values", torch::full({4}, rank.rank % 2 == 1 ? 2.0 : 1.0)}};
    const auto refused = agree_on_values(own, *rank.communicator);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::StartsWith("the parameters of rank 1, 3 are not bit-equal"));
  });
}

TEST(PackedTensors, MoveValuesOfAllTypesAndShapes) {
  const std::vector<torch::Tensor> tensors{torch::rand({3}), torch::tensor(7, torch::kInt64),
                                           torch::ones({5}, torch::kBool), torch::rand({2, 3}, torch::kDouble),
                                           torch::empty({0})};
  std::vector<torch::Tensor> expected;
  for (const torch::Tensor& tensor : tensors) expected.push_back(tensor.clone());
  PackedTensors packed{tensors};
  packed.pack();
  for (const torch::Tensor& tensor : tensors) tensor.zero_();
  packed.unpack();
  for (std::size_t index = 0; index < tensors.size(); ++index)
    EXPECT_TRUE(torch::equal(tensors[index], expected[index])) << index;
}

}  // namespace
}  // namespace trainyard::strategy
