#include "operator/plan/ownership.hpp"

#include "operator/plan/names.hpp"
#include "operator/plan/owned_object.hpp"

namespace trainyard::plan {

bool is_controlled_by(const resource::Metadata& object, const resource::TrainingJob& job) {
  return object.name_space == job.metadata.name_space && object.controller == owner_reference(job);
}

bool is_pod_of(const resource::Pod& pod, const resource::TrainingJob& job) {
  if (!is_controlled_by(pod.metadata, job)) return false;
  if (pod.metadata.name == clean_up_pod_name(job)) return true;
  const auto numbers = pod_numbers(job, pod.metadata.name);
  return numbers && (numbers->attempt != job.status.attempt || numbers->rank < job.status.replicas.desired);
}

bool is_service_of(const resource::Service& service, const resource::TrainingJob& job) {
  return is_controlled_by(service.metadata, job) && service.metadata.name == service_name(job);
}

}  // namespace trainyard::plan
