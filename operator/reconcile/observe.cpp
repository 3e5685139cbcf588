#include "operator/reconcile/observe.hpp"

#include <algorithm>

#include "operator/manifest/names.hpp"

namespace trainyard::reconcile {
namespace {

std::vector<resource::Pod> pods_of(const api::TrainingJob& job, const Caches& caches, const JobMemory& memory) {
  std::vector<resource::Pod> pods = caches.pods.owned_by(job.metadata.uid);
  std::erase_if(pods, [&](const resource::Pod& pod) {
    return !manifest::is_pod_of(pod, job) || memory.foreign_pods.contains(pod.metadata.uid);
  });
  return pods;
}

std::optional<resource::Service> service_of(const api::TrainingJob& job, const Caches& caches) {
  for (resource::Service& service : caches.services.owned_by(job.metadata.uid)) {
    if (manifest::is_service_of(service, job)) return std::move(service);
  }
  return std::nullopt;
}

/// True when the event is about `pod`. Compares namespace and name too, since anybody may write an event about any UID.
bool is_about(const resource::MountFailure& failure, const resource::Pod& pod) {
  return failure.metadata.name_space == pod.metadata.name_space && failure.pod == pod.metadata.name;
}

}  // namespace

plan::Observed observe(const api::TrainingJob& job, const Caches& caches, const JobMemory& memory,
                       const ProgressSource& progress, const ReconcilerOptions& options) {
  const std::string& uid = job.metadata.uid;
  plan::Observed observed{.job = job,
                          .pods = pods_of(job, caches, memory),
                          .service = service_of(job, caches),
                          .nodes = {},
                          .mount_failures = {},
                          .progress = progress.last_report(uid),
                          .status_written = memory.written,
                          .refusal = memory.refusal,
                          .create_failure = memory.create_failure,
                          .is_template_accepted = memory.accepted_spec_generation == job.metadata.generation,
                          .traits = options.traits,
                          .settings = options.settings};
  const auto add_node = [&](const std::string& name) {
    if (name.empty()) return;
    if (auto node = caches.nodes.find({.name_space = {}, .name = name})) observed.nodes.emplace(name, std::move(*node));
  };
  for (const resource::Pod& pod : observed.pods) add_node(pod.node_name);
  for (const resource::Pod& pod : observed.pods) {
    for (resource::MountFailure& failure : caches.mount_failures.owned_by(pod.metadata.uid)) {
      if (!is_about(failure, pod)) continue;
      observed.mount_failures[pod.metadata.name] = std::move(failure.message);
    }
  }
  for (const std::string& node : job.status.avoided_nodes) add_node(node);
  return observed;
}

}  // namespace trainyard::reconcile
