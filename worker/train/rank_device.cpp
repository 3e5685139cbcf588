#include "worker/train/rank_device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <utility>

#include "api/contract.hpp"
#include "worker/dist/chosen_gpus.hpp"
#include "worker/dist/cuda_module.hpp"
#include "worker/dist/device_choice.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::train {
namespace {

constexpr std::int64_t gpus_per_pod_max = 1024;

OrEnd<RankDevice> cpu_device(const dist::DeviceRequest& request) {
  if (const auto none = dist::choose_gpus_of_node(request, 0); !none) return end_rank(Stage::spec, none.error());
  return RankDevice{};
}

}  // namespace

std::string node_name(const rank::Environment& environment) {
  if (const auto name = environment(contract::env_node_name)) return *name;
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

OrEnd<RankDevice> open_device(const rank::Environment& environment, const rank::GroupEnvironment& group,
                              const api::TrainingSpec& training) {
  const auto promised =
      rank::optional_number(environment, contract::env_gpus_per_pod, {.min = 0, .max = gpus_per_pod_max});
  if (!promised) return end_rank(Stage::device, promised.error());
  const std::string node = "node " + node_name(environment);
  const dist::DeviceRequest request{.spec = training.device,
                                    .ranks = group.local_world_size,
                                    .is_of_one_rank = api::has_replicas(training.strategy),
                                    .node = node};
  if (*promised == 0 || training.device.accelerator == api::Accelerator::cpu) return cpu_device(request);
  const auto found = dist::find_cuda_module(environment);
  const dist::DriverAnswer driver = dist::ask_gpu_driver();
  auto gpus = dist::choose_gpus_of_node(request, promised->value_or(driver.devices));
  // Before one rank alone finds that there is no GPU of its number, all ranks of the node refuse the job.
  if (!gpus && !*promised && driver.trouble.empty()) return end_rank(Stage::spec, gpus.error());
  const auto device = dist::choose_device({.promised = *promised,
                                           .local_rank = group.local_rank,
                                           .node = node,
                                           .cuda_module = found ? Result<void>{} : tl::unexpected(found.error()),
                                           .driver = driver});
  if (!device) return end_rank(Stage::device, device.error());
  if (!*device) return cpu_device(request);
  if (!gpus) return end_rank(Stage::spec, gpus.error());
  const auto local_rank = static_cast<std::size_t>(group.local_rank);
  const std::int64_t number = training.device.devices && local_rank < gpus->size() ? (*gpus)[local_rank] : **device;
  const auto module = dist::load_cuda_module(environment);
  if (!module) return end_rank(Stage::device, module.error());
  try {
    (*module)->use_device(number);
  } catch (const std::exception& error) {
    return end_rank(Stage::device,
                    {.kind = ErrorKind::unavailable,
                     .message = fmt::format("GPU {} of {} cannot be used: {}", number, node, dist::message_of(error)),
                     .retry_after = {}});
  }
  return RankDevice{.device = {torch::kCUDA, static_cast<c10::DeviceIndex>(number)},
                    .memory = std::make_unique<dist::CudaMemoryGauge>(**module),
                    .gpus = std::move(*gpus)};
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
  if (training.deterministic && own.gpus.size() > 1) {
    return fail(ErrorKind::invalid,
                "training.deterministic: is not for dp and ddp2 with several GPUs, whose gradients are added up in the "
                "order in which they come: name ddp, or leave it out");
  }
  std::vector<torch::Device> devices;
  for (const std::int64_t number : own.gpus) {
    if (number != own.device.index()) devices.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>(number));
  }
  return devices;
}

}  // namespace trainyard::train
