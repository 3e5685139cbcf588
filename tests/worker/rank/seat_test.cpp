#include "worker/rank/seat.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::rank {
namespace {

struct Seating {
  std::string name;
  std::vector<Seat> seats;
  std::string warning;  // empty: none
};

class SplitNode : public testing::TestWithParam<Seating> {};

TEST_P(SplitNode, IsNamedWithTheGpusPerPodThatMakesItWhole) {
  EXPECT_EQ(split_node_warning(GetParam().seats).value_or(""), GetParam().warning);
}

INSTANTIATE_TEST_SUITE_P(
    Groups, SplitNode,
    testing::Values(
        Seating{"NoRank", {}, ""}, Seating{"OneRank", {{"a", 0}}, ""},
        Seating{"OnePodOfTwoRanks", {{"a", 0}, {"a", 0}}, ""}, Seating{"TwoNodes", {{"a", 0}, {"b", 1}}, ""},
        Seating{"TwoNodesOfTwoRanksEach", {{"a", 0}, {"a", 0}, {"b", 2}, {"b", 2}}, ""},
        Seating{"TwoPodsOnTheSecondNode",
                {{"a", 0}, {"b", 1}, {"b", 2}},
                "node b has 2 ranks of this job in 2 pods: between pods NCCL uses the network, and neither NVLink nor "
                "shared memory. Make one pod of each node: gpusPerPod 2, with as many replicas as nodes"},
        Seating{"TwoPodsOfTwoRanks",
                {{"a", 0}, {"a", 0}, {"a", 2}, {"a", 2}},
                "node a has 4 ranks of this job in 2 pods: between pods NCCL uses the network, and neither NVLink nor "
                "shared memory. Make one pod of each node: gpusPerPod 4, with as many replicas as nodes"}),
    [](const auto& info) { return info.param.name; });

TEST(Seat, IsReadBackFromItsText) {
  for (const Seat& seat : {Seat{"gpu-1.example.com", 12}, Seat{"", 0}}) EXPECT_EQ(parse_seat(to_text(seat)), seat);
}

TEST(Seat, OfOtherTextIsAnError) {
  for (const std::string text : {"", "node", "1", "x node", "1node", " 1 node", "99999999999999999999 node"})
    EXPECT_FALSE(parse_seat(text)) << text;
}

}  // namespace
}  // namespace trainyard::rank
