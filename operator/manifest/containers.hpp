#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <set>
#include <string>

#include "api/training_job.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// Number of rank processes in one pod: one for each GPU. One without GPUs, and where the strategy's only rank uses all
/// of them.
[[nodiscard]] std::int64_t ranks_per_pod(const api::TrainingJobSpec& spec);

/// Names of the devices that the container asks for as extended resources.
[[nodiscard]] std::set<std::string> devices_of(const nlohmann::json& container);

/// Why the container's own request for GPUs does not fit `gpus_per_pod`; empty if it fits or the container requests
/// none.
[[nodiscard]] std::string device_fault(const nlohmann::json& container, std::int64_t gpus_per_pod);

/// Requests `gpus_per_pod` nvidia.com/gpu, unless the container itself requests devices of any kind.
void add_devices(nlohmann::json& container, std::int64_t gpus_per_pod);

/// The template's container that trains: the one named `worker`, or the only one. Null if there is neither.
[[nodiscard]] const nlohmann::json* find_worker(const nlohmann::json& pod_template);

/// True when the operator supplies the worker's image.
[[nodiscard]] bool needs_worker_image(const api::TrainingJobSpec& spec);
/// The operator's image for this job's devices; empty if it was installed without one.
[[nodiscard]] const std::string& worker_image(const api::TrainingJobSpec& spec, const Settings& settings);

/// Name of the worker container in a pod whose containers are `names`. Its exit code decides how the pod ended.
[[nodiscard]] std::string deciding_container(const api::TrainingJobSpec& spec, const std::vector<std::string>& names);

/// One sentence that says why no pod can be made from the job's template; empty if one can.
[[nodiscard]] std::string template_fault(const api::TrainingJobSpec& spec, const Settings& settings);

/// A sentence about the first field of a pod template that has a wrong type; empty if there is none. Checks only the
/// fields that the operator reads or adds to. The API server checks all others.
[[nodiscard]] std::string template_shape_fault(const nlohmann::json& pod_template);

}  // namespace trainyard::manifest
