#pragma once

#include "api/training_job.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/resource/mount_failure.hpp"
#include "operator/resource/node.hpp"
#include "operator/resource/pod.hpp"
#include "operator/resource/service.hpp"

namespace trainyard::reconcile {

/// The objects that the informers keep up to date. `nodes` and `mount_failures` stay empty where the operator may not
/// read them.
struct Caches {
  control::ObjectCache<api::TrainingJob> jobs;
  control::ObjectCache<resource::Pod> pods;          ///< With the label contract::label_job.
  control::ObjectCache<resource::Service> services;  ///< With the label contract::label_job.
  control::ObjectCache<resource::Node> nodes;
  control::ObjectCache<resource::MountFailure> mount_failures;  ///< Of any pod, ours or not.
};

}  // namespace trainyard::reconcile
