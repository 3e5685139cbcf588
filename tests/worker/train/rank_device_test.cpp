#include "worker/train/rank_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankDevice gpu(std::int64_t gpus) {
  return {.device = torch::Device{torch::kCUDA, 0}, .memory = nullptr, .gpus = gpus};
}

TEST(DevicesOfFurtherReplicas, AreAllGpusOfThePodButTheRanksOwn) {
  const rank::GroupEnvironment alone{};
  EXPECT_THAT(*devices_of_further_replicas(gpu(3), alone, /*cpu_replicas=*/8),
              ElementsAre(torch::Device(torch::kCUDA, 1), torch::Device(torch::kCUDA, 2)));
  EXPECT_THAT(*devices_of_further_replicas(gpu(1), alone, /*cpu_replicas=*/8), IsEmpty());
}

TEST(DevicesOfFurtherReplicas, AreTheCpuAsOftenAsTheJobSays) {
  rank::GroupEnvironment group{};
  group.local_world_size = 2;
  EXPECT_THAT(*devices_of_further_replicas({}, group, 3), ElementsAre(torch::Device(torch::kCPU), torch::kCPU));
  EXPECT_THAT(*devices_of_further_replicas({}, group, 1), IsEmpty());
}

TEST(DevicesOfFurtherReplicas, AreNotSharedBySeveralRanks) {
  rank::GroupEnvironment group{};
  group.local_world_size = 2;
  const auto refused = devices_of_further_replicas(gpu(2), group, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("this pod has 2 ranks: start one in each, or name ddp"));
}

}  // namespace
}  // namespace trainyard::train
