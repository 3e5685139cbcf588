#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"

/// Jobs whose worker container asks for `google.com/tpu`: a pod is a host of a TPU slice, with all chips of that host.

namespace trainyard::manifest {

/// Why no pod can be made for a job whose worker container is `container`; empty if one can, and for a container that
/// asks for no TPU.
[[nodiscard]] std::string tpu_fault(const nlohmann::json& container, const api::TrainingJobSpec& spec);

/// Adds TPU_WORKER_ID (the pod's index) and TPU_WORKER_HOSTNAMES (the names of all pods of the attempt in the order of
/// their indices, separated by commas) to the variables of a container that asks for TPUs. libtpu finds the slice's
/// other hosts by them. Keeps variables of these names that the template's `env` has.
void add_tpu_environment(nlohmann::json& container, const api::TrainingJob& job, std::int64_t pod_index,
                         const ClusterTraits& traits);

}  // namespace trainyard::manifest
