#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/dist/gpu_driver.hpp"

namespace trainyard::dist {

struct DeviceFacts {
  std::optional<std::int64_t> promised;  ///< contract::env_gpus_per_pod; nothing: not set.
  std::int64_t local_rank = 0;
  std::string node;            ///< For messages.
  Result<void> cuda_module{};  ///< Why this program has no CUDA module (find_cuda_module); success where it has one.
  DriverAnswer driver;
};

/// The CUDA device that the rank trains on, by its place in the pod; nothing: the CPU. Pure. Errors: not_found or
/// invalid where this program or its environment is wrong, so that a restart cannot help; unavailable where the node
/// does not give what was promised, or its driver fails: another node may do better.
[[nodiscard]] Result<std::optional<std::int64_t>> choose_device(const DeviceFacts& facts);

/// Success when all ranks train on GPUs or all on the CPU. ErrorKind::conflict names the ranks that see no GPU:
/// NCCL would wait for them without end. Collective; other errors are the communicator's.
[[nodiscard]] Result<void> agree_on_device_kind(bool has_gpu, checkpoint::Communicator& communicator);

}  // namespace trainyard::dist
