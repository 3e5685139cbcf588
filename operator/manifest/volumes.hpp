#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::manifest {

/// Mounts a memory-backed emptyDir at /dev/shm: the runtime's own has 64 MiB, too little for NCCL and data loaders.
/// Does nothing if the worker mounts something there itself.
void add_shared_memory(nlohmann::json& pod_spec, nlohmann::json& worker);

/// Mounts the claim read-only at contract::data_mount_path.
void add_data_claim(nlohmann::json& pod_spec, nlohmann::json& worker, const std::string& claim);

/// Mounts the Secret's keys as files at contract::google_credentials_folder.
void add_google_credentials(nlohmann::json& pod_spec, nlohmann::json& worker, const std::string& secret);

}  // namespace trainyard::manifest
