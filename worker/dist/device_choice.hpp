#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"

namespace trainyard::dist {

/// The NVIDIA driver's answer about this process's GPUs.
struct DriverAnswer {
  bool is_present = false;   ///< True when there is a driver.
  std::int64_t devices = 0;  ///< How many GPUs the driver shows, within CUDA_VISIBLE_DEVICES.
  std::string trouble;       ///< Why the driver is missing or failed; empty when it answered.
  /// Value of CUDA_VISIBLE_DEVICES, which the driver reads too. An empty value hides all GPUs.
  std::optional<std::string> visible_devices;
  bool operator==(const DriverAnswer&) const = default;
};

/// Asks libcuda. Environment variables and device files are not used, because container runtimes give them different
/// meanings. Without a driver the only cost is the dynamic linker's search.
[[nodiscard]] DriverAnswer ask_gpu_driver();

struct DeviceFacts {
  std::optional<std::int64_t> promised;  ///< contract::env_gpus_per_pod, where it is set.
  std::int64_t local_rank = 0;
  std::string node;            ///< For messages.
  Result<void> cuda_module{};  ///< Success, or why find_cuda_module() found none.
  DriverAnswer driver;
};

/// The number of the CUDA device that the rank trains on, or nothing for the CPU. Pure. Errors: not_found or invalid
/// when this program or its environment is wrong, so that a restart cannot help; unavailable when the node lacks a
/// promised GPU or its driver fails, so that another node may do better.
[[nodiscard]] Result<std::optional<std::int64_t>> choose_device(const DeviceFacts& facts);

/// Success when all ranks train on GPUs, or all on the CPU. Otherwise ErrorKind::conflict names the ranks that see no
/// GPU, for which NCCL would wait without end. Collective; other errors are the communicator's.
[[nodiscard]] Result<void> agree_on_device_kind(bool has_gpu, checkpoint::Communicator& communicator);

}  // namespace trainyard::dist
