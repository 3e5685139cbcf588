#include "worker/train/rank_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/contract.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RankDevice gpu(std::vector<std::int64_t> gpus) {
  const auto own = static_cast<c10::DeviceIndex>(gpus.front());
  return {.device = torch::Device{torch::kCUDA, own}, .memory = nullptr, .gpus = std::move(gpus)};
}

api::TrainingSpec on_cpu(std::int64_t replicas) {
  api::TrainingSpec training;
  training.strategy = {.name = api::StrategyName::ddp2, .cpu_replicas = replicas};
  return training;
}

TEST(CheckProcessGroupBackend, RefusesNcclWithoutAGpu) {
  using api::ProcessGroupBackend;
  for (const auto backend : {ProcessGroupBackend::by_device, ProcessGroupBackend::gloo, ProcessGroupBackend::nccl}) {
    const api::StrategySpec strategy{.process_group_backend = backend};
    EXPECT_TRUE(check_process_group_backend({torch::kCUDA, 0}, strategy));
    EXPECT_EQ(check_process_group_backend(torch::kCPU, strategy).has_value(), backend != ProcessGroupBackend::nccl);
  }
  const auto refused = check_process_group_backend(torch::kCPU, {.process_group_backend = ProcessGroupBackend::nccl});
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("this rank computes on the CPU: name gloo, or leave it out"));
}

TEST(DevicesOfFurtherReplicas, AreAllGpusOfThePodButTheRanksOwn) {
  const rank::GroupEnvironment alone{};
  EXPECT_THAT(*devices_of_further_replicas(gpu({0, 1, 2}), alone, on_cpu(8)),
              ElementsAre(torch::Device(torch::kCUDA, 1), torch::Device(torch::kCUDA, 2)));
  EXPECT_THAT(*devices_of_further_replicas(gpu({2, 0}), alone, on_cpu(8)), ElementsAre(torch::Device(torch::kCUDA, 0)));
  EXPECT_THAT(*devices_of_further_replicas(gpu({0}), alone, on_cpu(8)), IsEmpty());
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
  const auto refused = devices_of_further_replicas(gpu({0, 1}), group, on_cpu(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("this pod has 2 ranks: start one in each, or name ddp"));
}

TEST(DevicesOfFurtherReplicas, AreNotSeveralGpusOfADeterministicJob) {
  api::TrainingSpec training = on_cpu(2);
  training.deterministic = true;
  EXPECT_EQ(devices_of_further_replicas({}, {}, training)->size(), 1U) << "the CPU adds up in one order";
  EXPECT_TRUE(devices_of_further_replicas(gpu({0}), {}, training));
  EXPECT_THAT(devices_of_further_replicas(gpu({0, 1}), {}, training).error().message,
              HasSubstr("training.deterministic: is not for dp and ddp2 with several GPUs"));
}

rank::Environment environment_with(const std::string& name, const std::string& value) {
  return [name, value](std::string_view asked) { return asked == name ? std::optional{value} : std::nullopt; };
}

TEST(NodeName, IsThatOfTheEnvironmentOrOfTheMachine) {
  EXPECT_EQ(node_name(environment_with("TRAINYARD_NODE_NAME", "node-7")), "node-7");
  EXPECT_EQ(node_name(environment_with("TRAINYARD_NODE_NAME", "")), "");
  EXPECT_NE(node_name(environment_with("HOSTNAME", "")), "");
}

TEST(OpenDevice, IsTheCpuWhereThePodWasPromisedNoGpu) {
  const auto opened = open_device(environment_with("TRAINYARD_GPUS_PER_POD", "0"), {}, {});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->device.is_cpu());
  EXPECT_EQ(opened->memory, nullptr);
  EXPECT_THAT(opened->gpus, IsEmpty());
}

TEST(OpenDevice, IsTheCpuWhereTheTrainingAsksForIt) {
  api::TrainingSpec training;
  training.device.accelerator = api::Accelerator::cpu;
  const auto opened = open_device(environment_with("TRAINYARD_GPUS_PER_POD", "1"), {}, training);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->device.is_cpu());
}

TEST(OpenDevice, EndsARankThatIsToTrainOnAGpuAndHasNone) {
  api::TrainingSpec training;
  training.device.accelerator = api::Accelerator::gpu;
  const auto opened = open_device(environment_with("TRAINYARD_GPUS_PER_POD", "0"), {}, training);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().exit_code, contract::exit_do_not_restart);
  EXPECT_THAT(opened.error().message, HasSubstr("training.accelerator is gpu, but node "));
}

TEST(OpenDevice, RefusesAPromiseThatIsNoNumberOfGpus) {
  for (const std::string promised : {"", "many", "-1", "1025", "1.5", "2 "}) {
    const auto opened = open_device(environment_with("TRAINYARD_GPUS_PER_POD", promised), {}, {});
    ASSERT_FALSE(opened) << promised;
    EXPECT_EQ(opened.error().exit_code, contract::exit_do_not_restart);
    EXPECT_THAT(opened.error().message, HasSubstr("TRAINYARD_GPUS_PER_POD"));
  }
}

}  // namespace
}  // namespace trainyard::train
