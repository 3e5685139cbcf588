#include "worker/train/rank_device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <utility>

#include "api/contract.hpp"
#include "worker/dist/cuda_module.hpp"
#include "worker/dist/device_choice.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::train {
namespace {

constexpr std::int64_t gpus_per_pod_max = 1024;

}  // namespace

std::string node_name(const rank::Environment& environment) {
  if (const auto name = environment(contract::env_node_name)) return *name;
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

OrEnd<RankDevice> open_device(const rank::Environment& environment, const rank::GroupEnvironment& group) {
  const auto promised =
      rank::optional_number(environment, contract::env_gpus_per_pod, {.min = 0, .max = gpus_per_pod_max});
  if (!promised) return end_rank(Stage::device, promised.error());
  if (*promised == 0) return RankDevice{};
  const auto found = dist::find_cuda_module(environment);
  const dist::DriverAnswer driver = dist::ask_gpu_driver();
  const auto device = dist::choose_device({.promised = *promised,
                                           .local_rank = group.local_rank,
                                           .node = "node " + node_name(environment),
                                           .cuda_module = found ? Result<void>{} : tl::unexpected(found.error()),
                                           .driver = driver});
  if (!device) return end_rank(Stage::device, device.error());
  if (!*device) return RankDevice{};
  const auto module = dist::load_cuda_module(environment);
  if (!module) return end_rank(Stage::device, module.error());
  try {
    (*module)->use_device(**device);
  } catch (const std::exception& error) {
    return end_rank(Stage::device, {.kind = ErrorKind::unavailable,
                                    .message = fmt::format("GPU {} of node {} cannot be used: {}", **device,
                                                           node_name(environment), dist::message_of(error)),
                                    .retry_after = {}});
  }
  return RankDevice{.device = {torch::kCUDA, static_cast<c10::DeviceIndex>(**device)},
                    .memory = std::make_unique<dist::CudaMemoryGauge>(**module),
                    .gpus = promised->value_or(driver.devices)};
}

Result<void> check_process_group_backend(torch::Device device, const api::StrategySpec& strategy) {
  if (strategy.process_group_backend != api::ProcessGroupBackend::nccl || !device.is_cpu()) return {};
  return fail(ErrorKind::invalid,
              "training.strategy.processGroupBackend: is nccl, which carries exchanges between GPUs, but this rank "
              "computes on the CPU: name gloo, or leave it out");
}

Result<std::vector<torch::Device>> devices_of_further_replicas(const RankDevice& own,
                                                               const rank::GroupEnvironment& group,
                                                               const api::TrainingSpec& training) {
  if (own.device.is_cpu())
    return std::vector<torch::Device>(static_cast<std::size_t>(training.strategy.cpu_replicas - 1), torch::kCPU);
  if (group.local_world_size > 1) {
    return fail(
        ErrorKind::invalid,
        fmt::format("training.strategy.name: dp and ddp2 need one rank in each pod, which uses all GPUs of the pod, "
                    "but this pod has {} ranks: start one in each, or name ddp",
                    group.local_world_size));
  }
  if (training.deterministic && own.gpus > 1) {
    return fail(ErrorKind::invalid,
                "training.deterministic: is not for dp and ddp2 with several GPUs, whose gradients are added up in the "
                "order in which they come: name ddp, or leave it out");
  }
  std::vector<torch::Device> devices;
  for (std::int64_t index = own.device.index() + 1; index < own.gpus; ++index)
    devices.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>(index));
  return devices;
}

}  // namespace trainyard::train
