#pragma once

#include "api/training_job.hpp"
#include "operator/resource/pod.hpp"
#include "operator/resource/service.hpp"

/// Anybody may write an ownerReference, a label or a name. An object is the job's only if namespace, owner and name all
/// say so.
namespace trainyard::plan {

/// True when `object` is in the job's namespace and its controller is the job by apiVersion, kind, name and UID.
[[nodiscard]] bool is_controlled_by(const api::Metadata& object, const api::TrainingJob& job);

/// True for a pod that the job controls and whose name is one that a plan of the job gives: the clean-up pod's, or that
/// of a rank of any attempt. In the current attempt the rank must be below the size of the group.
[[nodiscard]] bool is_pod_of(const resource::Pod& pod, const api::TrainingJob& job);

[[nodiscard]] bool is_service_of(const resource::Service& service, const api::TrainingJob& job);

}  // namespace trainyard::plan
