#include "operator/manifest/clean_up_pod.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/devices.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/pod_environment.hpp"
#include "operator/manifest/worker_pod.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

Environment clean_up_environment(const api::TrainingJob& job) {
  const json spec{{"checkpoint", worker_checkpoint(*job.spec.checkpoint)}};
  return {{std::string{contract::env_job}, job.metadata.name},
          {std::string{contract::env_namespace}, job.metadata.name_space},
          {std::string{contract::env_job_uid}, job.metadata.uid},
          {std::string{contract::env_attempt}, std::to_string(job.status.attempt + 1)},
          {std::string{contract::env_spec}, spec.dump()}};
}

/// Small, because it may take long to find room for the training's own resources again. Requests and limits are both
/// set, since a quota may demand both.
json small_resources() {
  return {{"requests", {{"cpu", "100m"}, {"memory", "128Mi"}}}, {"limits", {{"cpu", "1"}, {"memory", "1Gi"}}}};
}

/// Tolerates taints that bear the name of a device of rank 0's pod. Some clusters add this toleration to every pod that
/// asks for the device (admission plugin ExtendedResourceToleration). This pod asks for no device, and yet its template
/// may allow only nodes that have one.
void tolerate_devices(json& pod_spec, json rank_worker, std::int64_t gpus_per_pod) {
  add_devices(rank_worker, gpus_per_pod);
  for (const std::string& device : devices_of(rank_worker)) {
    pod_spec["tolerations"].push_back({{"key", device}, {"operator", "Exists"}, {"effect", "NoSchedule"}});
  }
}

json build_container(const api::TrainingJob& job, const Settings& settings, json worker) {
  for (const char* of_training :
       {"args", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"}) {
    worker.erase(of_training);
  }
  worker["command"] = {contract::worker_program, contract::clean_up_command};
  worker["resources"] = small_resources();
  // The image of this release, which knows the clean-up, whichever image the job's attempts have run.
  complete_worker(worker, job.spec, worker_image(job.spec, settings), clean_up_environment(job));
  return worker;
}

}  // namespace

json build_clean_up_pod(const api::TrainingJob& job, const Settings& settings) {
  json pod_spec = job.spec.pod_template.value("spec", json::object());
  const json rank_worker = choose_worker(pod_spec);
  tolerate_devices(pod_spec, rank_worker, job.spec.gpus_per_pod);
  json worker = build_container(job, settings, rank_worker);
  add_credentials(pod_spec, worker, job.spec);
  pod_spec["containers"] = json::array({std::move(worker)});
  // Init containers fetch data for the training and would only delay the clean-up. The pod's own resources and resource
  // claims are for the training.
  for (const char* of_training : {"initContainers", "resources", "resourceClaims"}) pod_spec.erase(of_training);
  complete_pod(pod_spec, job, settings);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", worker_metadata(job, clean_up_pod_name(job))},
          {"spec", std::move(pod_spec)}};
}

}  // namespace trainyard::manifest
