#include "operator/reconcile/observe.hpp"

namespace trainyard::reconcile {

plan::Observed observe(const resource::TrainingJob& job, const Caches& caches, const JobMemory& memory,
                       const ProgressSource& progress, const ReconcilerOptions& options) {
  const std::string& uid = job.metadata.uid;
  plan::Observed observed{.job = job,
                          .pods = caches.pods.owned_by(uid),
                          .service = {},
                          .nodes = {},
                          .mount_failures = {},
                          .progress = progress.last_report(uid),
                          .status_written = memory.written,
                          .refusal = memory.refusal,
                          .create_failure = memory.create_failure,
                          .is_template_accepted = memory.accepted_generation == job.metadata.generation,
                          .traits = options.traits,
                          .settings = options.settings};
  const auto services = caches.services.owned_by(uid);
  if (!services.empty()) observed.service = services.front();
  const auto add_node = [&](const std::string& name) {
    if (name.empty()) return;
    if (auto node = caches.nodes.find({.name_space = {}, .name = name})) observed.nodes.emplace(name, std::move(*node));
  };
  for (const resource::Pod& pod : observed.pods) add_node(pod.node_name);
  for (const resource::Pod& pod : observed.pods) {
    for (resource::MountFailure& failure : caches.mount_failures.owned_by(pod.metadata.uid)) {
      observed.mount_failures[pod.metadata.name] = std::move(failure.message);
    }
  }
  for (const std::string& node : job.status.avoided_nodes) add_node(node);
  return observed;
}

}  // namespace trainyard::reconcile
