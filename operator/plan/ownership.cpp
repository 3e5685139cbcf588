#include "operator/plan/ownership.hpp"

#include "operator/manifest/names.hpp"

namespace trainyard::plan {

bool is_controlled_by(const api::Metadata& object, const api::TrainingJob& job) {
  return object.name_space == job.metadata.name_space && object.controller == manifest::owner_reference(job);
}

bool is_pod_of(const resource::Pod& pod, const api::TrainingJob& job) {
  if (!is_controlled_by(pod.metadata, job)) return false;
  if (pod.metadata.name == manifest::clean_up_pod_name(job)) return true;
  const auto numbers = manifest::pod_numbers(job, pod.metadata.name);
  return numbers && (numbers->attempt != job.status.attempt || numbers->pod_index < job.status.replicas.desired);
}

bool is_service_of(const resource::Service& service, const api::TrainingJob& job) {
  return is_controlled_by(service.metadata, job) && service.metadata.name == manifest::service_name(job);
}

}  // namespace trainyard::plan
