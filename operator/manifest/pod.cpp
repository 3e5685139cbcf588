#include "operator/manifest/pod.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "operator/manifest/devices.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/pod_environment.hpp"
#include "operator/manifest/request_token.hpp"
#include "operator/manifest/spec_hash.hpp"
#include "operator/manifest/volumes.hpp"
#include "operator/manifest/worker_pod.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

json build_metadata(const api::TrainingJob& job, std::int64_t rank) {
  json metadata = worker_metadata(job, pod_name(job, job.status.attempt, rank));
  metadata["labels"][std::string{contract::label_attempt}] = std::to_string(job.status.attempt);
  metadata["labels"][std::string{contract::label_rank}] = std::to_string(rank);
  metadata["annotations"][std::string{spec_hash_annotation}] = spec_hash(job.spec);
  return metadata;
}

Environment environment_of(const api::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits,
                           const Settings& settings) {
  Environment ours = pod_environment(job, job.status.replicas.desired, rank, grace_seconds(job.spec), traits);
  if (takes_requests(job.spec) && !settings.request_key.empty()) {
    ours.emplace_back(contract::env_request_token, request_token(settings.request_key, job, rank));
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

}  // namespace

json build_pod(const api::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits, const Settings& settings) {
  const api::TrainingJobSpec& spec = job.spec;
  json pod_spec = spec.pod_template.value("spec", json::object());
  json& worker = choose_worker(pod_spec);
  complete_worker(worker, spec, job.status.worker_image, environment_of(job, rank, traits, settings));
  // A rank that lacks a GPU names its node in its message.
  if (spec.gpus_per_pod > 0 || (spec.checkpoint && spec.checkpoint->local)) add_node_name(worker);
  add_cpu_request(worker);
  add_devices(worker, spec.gpus_per_pod);
  add_shared_memory(pod_spec, worker);
  if (spec.training && !spec.training->data.volume_claim.empty()) {
    add_data_claim(pod_spec, worker, spec.training->data.volume_claim);
  }
  add_credentials(pod_spec, worker, spec);
  pod_spec["hostname"] = pod_name(job, job.status.attempt, rank);
  pod_spec["subdomain"] = service_name(job);
  complete_pod(pod_spec, job, settings);
  return {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", build_metadata(job, rank)}, {"spec", std::move(pod_spec)}};
}

}  // namespace trainyard::manifest
