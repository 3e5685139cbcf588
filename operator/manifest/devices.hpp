#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace trainyard::manifest {

/// Rank processes in one pod: one for each GPU, and one on CPU.
[[nodiscard]] std::int64_t ranks_per_pod(std::int64_t gpus_per_pod);

/// Names of the devices that the container asks for as extended resources.
[[nodiscard]] std::set<std::string> devices_of(const nlohmann::json& container);

/// Why the container's own request of GPUs does not fit `gpusPerPod`; empty where it does or asks for none.
[[nodiscard]] std::string device_fault(const nlohmann::json& container, std::int64_t gpus_per_pod);

/// Asks for `gpus_per_pod` nvidia.com/gpu, unless the container asks for devices of any kind itself.
void add_devices(nlohmann::json& container, std::int64_t gpus_per_pod);

}  // namespace trainyard::manifest
