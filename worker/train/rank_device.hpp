#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "worker/dist/device_memory.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/train/ending.hpp"

namespace trainyard::train {

/// This rank's device.
struct RankDevice {
  torch::Device device = torch::kCPU;
  std::unique_ptr<dist::DeviceMemoryGauge> memory;  ///< nullptr on the CPU.
  /// The numbers of the GPUs that the ranks of this pod train on.
  std::vector<std::int64_t> gpus;
};

/// The node's name. Ranks of one node share its folder of local checkpoints.
[[nodiscard]] std::string node_name(const rank::Environment& environment);

/// Chooses this rank's device, as `training` asks, and makes it ready for use.
[[nodiscard]] OrEnd<RankDevice> open_device(const rank::Environment& environment, const rank::GroupEnvironment& group,
                                            const api::TrainingSpec& training);

/// ErrorKind::invalid for a job that asks for NCCL, when this rank computes on the CPU. No API server has refused the
/// job if torchrun or a user has started the rank.
[[nodiscard]] Result<void> check_process_group_backend(torch::Device device, const api::StrategySpec& strategy);

/// The devices of the model's replicas but the first, for the strategies dp and ddp2: on a GPU, those of own.gpus
/// but the first; on the CPU, the CPU cpuReplicas - 1 times. ErrorKind::invalid when this rank's pod has several ranks,
/// which would share the GPUs, and for several GPUs of a job that is to be deterministic.
[[nodiscard]] Result<std::vector<torch::Device>> devices_of_further_replicas(const RankDevice& own,
                                                                             const rank::GroupEnvironment& group,
                                                                             const api::TrainingSpec& training);

}  // namespace trainyard::train
