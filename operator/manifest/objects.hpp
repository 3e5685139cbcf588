#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The pod of `pod_index` in the current attempt of `job`: the template, completed with what a member of the group
/// needs. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_pod(const api::TrainingJob& job, std::int64_t pod_index, const ClusterTraits& traits,
                                       const Settings& settings);

/// The pod that removes the job's checkpoints once none of its ranks runs. It has what rank 0's pod needs to reach the
/// storage: image, credentials, volumes, service account, scheduling. It has only the worker container, no devices, and
/// belongs to no attempt. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_clean_up_pod(const api::TrainingJob& job, const Settings& settings);

/// The selector by which a service selects the pods of `attempt`; with 0 it selects none.
[[nodiscard]] nlohmann::json pod_selector(const api::TrainingJob& job, std::int64_t attempt);

/// The headless service that gives the pods of an attempt their host names. It publishes addresses before pods are
/// ready, because ranks look each other up while they start. It selects no pod yet: Kubernetes' controllers go through
/// all pods of the namespace whenever a selected pod comes or goes, and would do so for each pod of a large group that
/// is being created.
[[nodiscard]] nlohmann::json build_service(const api::TrainingJob& job);

}  // namespace trainyard::manifest
