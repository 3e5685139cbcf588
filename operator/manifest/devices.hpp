#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace trainyard::manifest {

/// Number of rank processes in one pod: one for each GPU; one without GPUs.
[[nodiscard]] std::int64_t ranks_per_pod(std::int64_t gpus_per_pod);

/// Names of the devices that the container asks for as extended resources.
[[nodiscard]] std::set<std::string> devices_of(const nlohmann::json& container);

/// Why the container's own request for GPUs does not fit `gpus_per_pod`; empty if it fits or the container requests
/// none.
[[nodiscard]] std::string device_fault(const nlohmann::json& container, std::int64_t gpus_per_pod);

/// Requests `gpus_per_pod` nvidia.com/gpu, unless the container itself requests devices of any kind.
void add_devices(nlohmann::json& container, std::int64_t gpus_per_pod);

}  // namespace trainyard::manifest
