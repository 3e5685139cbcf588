#pragma once

#include <string>

#include "api/contract.hpp"
#include "api/training_job.hpp"
#include "operator/control/object_cache.hpp"
#include "operator/manifest/names.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::manager {

inline const control::ObjectKey key{"ns", "job"};

/// A running job in its second attempt.
inline api::TrainingJob running_job() {
  api::TrainingJob job;
  job.metadata.name = "job";
  job.metadata.name_space = "ns";
  job.metadata.uid = "abcd-uid";
  job.metadata.resource_version = "1";
  job.status.phase = api::Phase::running;
  job.status.attempt = 2;
  job.status.replicas.desired = 1;
  return job;
}

/// The running pod of the job's rank 0.
inline resource::Pod rank_0(std::string attempt = "2") {
  resource::Pod pod;
  pod.metadata.name = "job-abcd-" + attempt + "-0";
  pod.metadata.name_space = "ns";
  pod.metadata.uid = pod.metadata.name;
  pod.metadata.resource_version = "1";
  pod.metadata.controller = manifest::owner_reference(running_job());
  pod.metadata.labels = {{std::string{contract::label_attempt}, attempt}, {std::string{contract::label_rank}, "0"}};
  pod.phase = resource::PodPhase::running;
  pod.pod_ip = "10.0.0.7";
  return pod;
}

}  // namespace trainyard::manager
