#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/dist/gpu_driver.hpp"

namespace trainyard::dist {

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
