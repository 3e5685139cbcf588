#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"

namespace trainyard::manifest {

/// `<job>-<uid4>`, with which the name of each object of the job begins. A job that was deleted and applied again has
/// another UID, so that its names mostly differ from its predecessor's; owner references tell the two apart.
[[nodiscard]] std::string owned_name(const api::TrainingJob& job);
[[nodiscard]] std::string service_name(const api::TrainingJob& job);
/// `<job>-<uid4>-<attempt>-<pod index>`.
[[nodiscard]] std::string pod_name(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index);
/// `<job>-<uid4>-cleanup`: the pod that removes a deleted job's checkpoints, which is in no attempt.
[[nodiscard]] std::string clean_up_pod_name(const api::TrainingJob& job);
[[nodiscard]] PodPlace place_of(const api::TrainingJob& job, std::int64_t attempt, std::int64_t pod_index);

[[nodiscard]] std::string job_selector(const api::TrainingJob& job);

struct PodNumbers {
  std::int64_t attempt = 0;    ///< From 1.
  std::int64_t pod_index = 0;  ///< In the group, from 0.
  bool operator==(const PodNumbers&) const = default;
};

/// The attempt and the pod's index for which `pod_name` returns exactly `name`; empty if there are none.
[[nodiscard]] std::optional<PodNumbers> pod_numbers(const api::TrainingJob& job, std::string_view name);

/// The attempt or the pod's index in the name of a pod of `job`; -1, which equals no attempt and no index, if
/// pod_name() does not make this name, as that of the clean-up pod. Reads the name and not the labels, because users
/// can edit labels.
[[nodiscard]] std::int64_t attempt_of(const api::TrainingJob& job, const resource::Pod& pod);
[[nodiscard]] std::int64_t pod_index_of(const api::TrainingJob& job, const resource::Pod& pod);

/// The owner reference that makes the job the controller of an object.
[[nodiscard]] api::OwnerReference owner_reference(const api::TrainingJob& job);

/// Metadata of an object `name` that the job owns: namespace, the job's label and its owner reference. Kubernetes
/// deletes the object together with the job.
[[nodiscard]] nlohmann::json owned_metadata(const api::TrainingJob& job, const std::string& name);

// An object belongs to a job only if its namespace, owner and name all say so, because anybody may write one of them.

/// True when `object` is in the job's namespace and its controller is the job by apiVersion, kind, name and UID.
[[nodiscard]] bool is_controlled_by(const api::Metadata& object, const api::TrainingJob& job);

/// True for a pod that the job controls and that has a name of the job's pods: the clean-up pod's, or the name of a pod
/// in any attempt. In the current attempt the pod's index must be below the size of the group.
[[nodiscard]] bool is_pod_of(const resource::Pod& pod, const api::TrainingJob& job);

[[nodiscard]] bool is_service_of(const resource::Service& service, const api::TrainingJob& job);

}  // namespace trainyard::manifest
