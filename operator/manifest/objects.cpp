#include "operator/manifest/objects.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/pod_environment.hpp"
#include "operator/manifest/request_token.hpp"
#include "operator/manifest/spec_hash.hpp"
#include "operator/manifest/tpu.hpp"
#include "operator/manifest/worker_pod.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

json build_metadata(const api::TrainingJob& job, std::int64_t pod_index) {
  json metadata = worker_metadata(job, pod_name(job, job.status.attempt, pod_index));
  metadata["labels"][std::string{contract::label_attempt}] = std::to_string(job.status.attempt);
  metadata["labels"][std::string{contract::label_rank}] = std::to_string(pod_index);
  metadata["annotations"][std::string{spec_hash_annotation}] = spec_hash(job.spec);
  return metadata;
}

Environment environment_of(const api::TrainingJob& job, std::int64_t pod_index, const ClusterTraits& traits,
                           const Settings& settings) {
  Environment ours = pod_environment(job, job.status.replicas.desired, pod_index, grace_seconds(job.spec), traits);
  if (takes_requests(job.spec) && !settings.request_key.empty()) {
    ours.emplace_back(contract::env_request_token, request_token(settings.request_key, job, pod_index));
  }
  return ours;
}

/// Adds a variable whose value Kubernetes fills in when the pod runs, in place of a user's variable of that name.
void add_variable(json& worker, std::string_view name, json source) {
  json& environment = worker["env"];
  std::erase_if(environment.get_ref<json::array_t&>(),
                [&](const json& variable) { return variable.value("name", "") == name; });
  environment.push_back({{"name", name}, {"valueFrom", std::move(source)}});
}

void add_node_name(json& worker) {
  add_variable(worker, contract::env_node_name, {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}});
}

/// Tells the worker its CPU request: without a limit a process cannot see the request from inside its container.
void add_cpu_request(json& worker) {
  if (!worker.contains("/resources/requests/cpu"_json_pointer)) return;
  add_variable(worker, contract::env_cpu_millicores,
               {{"resourceFieldRef", {{"resource", "requests.cpu"}, {"divisor", "1m"}}}});
}

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

json build_pod(const api::TrainingJob& job, std::int64_t pod_index, const ClusterTraits& traits,
               const Settings& settings) {
  const api::TrainingJobSpec& spec = job.spec;
  json pod_spec = spec.pod_template.value("spec", json::object());
  json& worker = choose_worker(pod_spec);
  complete_worker(worker, spec, job.status.worker_image, environment_of(job, pod_index, traits, settings));
  // A rank that lacks a GPU names its node in its message.
  if (spec.gpus_per_pod > 0 || (spec.checkpoint && spec.checkpoint->local)) add_node_name(worker);
  add_cpu_request(worker);
  add_tpu_environment(worker, job, pod_index, traits);
  add_devices(worker, spec.gpus_per_pod);
  add_shared_memory(pod_spec, worker);
  if (spec.training && !spec.training->data.volume_claim.empty()) {
    add_data_volume_claim(pod_spec, worker, spec.training->data.volume_claim);
  }
  add_credentials(pod_spec, worker, spec);
  pod_spec["hostname"] = pod_name(job, job.status.attempt, pod_index);
  pod_spec["subdomain"] = service_name(job);
  complete_pod(pod_spec, job, settings);
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", build_metadata(job, pod_index)},
          {"spec", std::move(pod_spec)}};
}

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

nlohmann::json pod_selector(const api::TrainingJob& job, std::int64_t attempt) {
  return {{contract::label_job, job.metadata.name}, {contract::label_attempt, std::to_string(attempt)}};
}

nlohmann::json build_service(const api::TrainingJob& job) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", owned_metadata(job, service_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", pod_selector(job, 0)},
            {"ports",
             {{{"name", "master"}, {"port", contract::default_master_port}},
              {{"name", "status"}, {"port", contract::default_status_port}}}}}}};
}

}  // namespace trainyard::manifest
