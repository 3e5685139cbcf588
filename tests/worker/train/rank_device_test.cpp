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

api::TrainingSpec on_cpu(std::int64_t replicas) {
  api::TrainingSpec training;
  training.strategy = {.name = api::StrategyName::ddp2, .cpu_replicas = replicas};
  return training;
}

TEST(DevicesOfFurtherReplicas, AreAllGpusOfThePodButTheRanksOwn) {
  const rank::GroupEnvironment alone{};
  EXPECT_THAT(*devices_of_further_replicas(gpu(3), alone, on_cpu(8)),
              ElementsAre(torch::Device(torch::kCUDA, 1), torch::Device(torch::kCUDA, 2)));
  EXPECT_THAT(*devices_of_further_replicas(gpu(1), alone, on_cpu(8)), IsEmpty());
}

TEST(DevicesOfFurtherReplicas, AreTheCpuAsOftenAsTheJobSays) {
  rank::GroupEnvironment group{};
  group.local_world_size = 2;
  EXPECT_THAT(*devices_of_further_replicas({}, group, on_cpu(3)), ElementsAre(torch::Device(torch::kCPU), torch::kCPU));
  EXPECT_THAT(*devices_of_further_replicas({}, group, on_cpu(1)), IsEmpty());
}

TEST(DevicesOfFurtherReplicas, AreNotSharedBySeveralRanks) {
  rank::GroupEnvironment group{};
  group.local_world_size = 2;
  const auto refused = devices_of_further_replicas(gpu(2), group, on_cpu(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("this pod has 2 ranks: start one in each, or name ddp"));
}

TEST(DevicesOfFurtherReplicas, AreNotSeveralGpusOfADeterministicJob) {
  api::TrainingSpec training = on_cpu(2);
  training.deterministic = true;
  EXPECT_EQ(devices_of_further_replicas({}, {}, training)->size(), 1U) << "the CPU adds up in one order";
  EXPECT_TRUE(devices_of_further_replicas(gpu(1), {}, training));
  EXPECT_THAT(devices_of_further_replicas(gpu(2), {}, training).error().message,
              HasSubstr("training.deterministic: is not for dp and ddp2 with several GPUs"));
}

}  // namespace
}  // namespace trainyard::train
