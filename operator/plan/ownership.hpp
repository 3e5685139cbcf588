#pragma once

#include "api/training_job.hpp"
#include "operator/resource/resources.hpp"

/// An object belongs to a job only if its namespace, owner and name all say so, because anybody may write one of them.
namespace trainyard::plan {

/// True when `object` is in the job's namespace and its controller is the job by apiVersion, kind, name and UID.
[[nodiscard]] bool is_controlled_by(const api::Metadata& object, const api::TrainingJob& job);

/// True for a pod that the job controls and that has a name of the job's pods: the clean-up pod's, or the name of a pod
/// in any attempt. In the current attempt the pod's index must be below the size of the group.
[[nodiscard]] bool is_pod_of(const resource::Pod& pod, const api::TrainingJob& job);

[[nodiscard]] bool is_service_of(const resource::Service& service, const api::TrainingJob& job);

}  // namespace trainyard::plan
