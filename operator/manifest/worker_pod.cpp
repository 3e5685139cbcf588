#include "operator/manifest/worker_pod.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/security.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

constexpr std::int64_t kubernetes_grace_seconds = 30;
constexpr int seconds_on_lost_node = 30;

/// Sets `field` only if it is absent.
void set_default(json& object, const char* field, json value) {
  if (!object.contains(field)) object[field] = std::move(value);
}

/// Our variables come first, so that the user's variables can refer to them as `$(RANK)`. A user's variable of one of
/// our names is dropped, because the last of two equal names would win.
json merge_environment(const json& user, const Environment& ours) {
  json environment = json::array();
  std::set<std::string> names;
  for (const auto& [name, value] : ours) {
    environment.push_back({{"name", name}, {"value", value}});
    names.insert(name);
  }
  for (const json& variable : user) {
    if (names.insert(variable.value("name", "")).second) environment.push_back(variable);
  }
  return environment;
}

bool has_uri_of(const api::TrainingJobSpec& spec, std::string_view scheme) {
  std::vector<std::string_view> uris;
  if (spec.checkpoint) uris = {spec.checkpoint->uri, spec.checkpoint->resume_uri};
  if (spec.training)
    uris.insert(uris.end(), {spec.training->data.uri, spec.training->model.weights, spec.training->model.uri});
  return std::ranges::any_of(uris, [&](std::string_view uri) { return uri.starts_with(scheme); });
}

std::string credentials_secret(const api::TrainingJobSpec& spec) {
  return spec.checkpoint ? spec.checkpoint->credentials_secret : "";
}

/// The Secret to mount for Google's clients, which read credentials only from a file; empty if the job has no gs://
/// URI.
std::string google_credentials_secret(const api::TrainingJobSpec& spec) {
  return has_uri_of(spec, "gs://") ? credentials_secret(spec) : "";
}

/// The Secret whose keys become variables; empty if Google's clients alone use it.
std::string variables_secret(const api::TrainingJobSpec& spec) {
  const bool is_googles_alone = has_uri_of(spec, "gs://") && !has_uri_of(spec, "s3://") && !has_uri_of(spec, "az://");
  return is_googles_alone ? "" : credentials_secret(spec);
}

/// Adds the variables that a user may override.
void add_default_environment(json& environment, const api::TrainingJobSpec& spec) {
  const auto add = [&](std::string_view name, std::string_view value) {
    const bool is_set =
        std::ranges::any_of(environment, [&](const json& set) { return set.value("name", "") == name; });
    if (!is_set && !value.empty()) environment.push_back({{"name", name}, {"value", value}});
  };
  add("PYTHONUNBUFFERED", "1");  // Keeps the last lines of a killed Python process.
  // Trainyard's own worker does not need it: its launcher ends the ranks before NCCL's watchdog would.
  if (!spec.training) add(contract::env_nccl_async_error_handling, contract::default_async_error_handling);
  if (spec.checkpoint) {
    add("AWS_REGION", spec.checkpoint->s3.region);
    add("AWS_ENDPOINT_URL_S3", spec.checkpoint->s3.endpoint);
  }
  if (!google_credentials_secret(spec).empty()) {
    add(contract::google_credentials_variable,
        fmt::format("{}/{}", contract::google_credentials_folder, contract::google_credentials_file));
  }
}

/// Lets the pod leave a silent node after 30 s, not after Kubernetes' 300 s, unless the template says otherwise.
void add_node_loss_tolerations(json& pod_spec) {
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    json& tolerations = pod_spec["tolerations"];
    const bool is_set = std::ranges::any_of(tolerations, [&](const json& toleration) {
      const std::string key = toleration.value("key", "");
      return key == taint || (key.empty() && toleration.value("operator", "") == "Exists");
    });
    if (is_set) continue;
    tolerations.push_back(
        {{"key", taint}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", seconds_on_lost_node}});
  }
}

bool has_mount_at(const json& container, std::string_view path) {
  const json mounts = container.value("volumeMounts", json::array());
  return std::ranges::any_of(mounts, [&](const json& mount) { return mount.value("mountPath", "") == path; });
}

}  // namespace

std::int64_t grace_seconds(const api::TrainingJobSpec& spec) {
  const json pod_spec = spec.pod_template.value("spec", json::object());
  if (pod_spec.contains("terminationGracePeriodSeconds")) {
    return pod_spec.at("terminationGracePeriodSeconds").get<std::int64_t>();
  }
  return spec.checkpoint ? contract::grace_seconds_with_checkpoint : kubernetes_grace_seconds;
}

json worker_metadata(const api::TrainingJob& job, const std::string& name) {
  const json user = job.spec.pod_template.value("metadata", json::object());
  json metadata = owned_metadata(job, name);
  json labels = user.value("labels", json::object());
  labels.update(metadata.at("labels"));
  metadata["labels"] = std::move(labels);
  json annotations = user.value("annotations", json::object());
  // A mesh's proxy breaks the ranks' own protocols and outlives the worker.
  set_default(annotations, "sidecar.istio.io/inject", "false");
  metadata["annotations"] = std::move(annotations);
  return metadata;
}

json& choose_worker(json& pod_spec) {
  json& containers = pod_spec["containers"];
  if (!containers.is_array() || containers.empty()) {
    containers = json::array({{{"name", contract::worker_container}}});
  }
  const auto named = std::ranges::find_if(
      containers, [](const json& container) { return container.value("name", "") == contract::worker_container; });
  return named != containers.end() ? *named : containers.front();
}

void complete_worker(json& worker, const api::TrainingJobSpec& spec, const std::string& image,
                     const Environment& ours) {
  if (needs_worker_image(spec)) worker["image"] = image;
  worker["env"] = merge_environment(worker.value("env", json::array()), ours);
  add_default_environment(worker["env"], spec);
  set_default(worker, "terminationMessagePolicy", "FallbackToLogsOnError");
}

void add_credentials(json& pod_spec, json& worker, const api::TrainingJobSpec& spec) {
  if (const std::string secret = variables_secret(spec); !secret.empty()) {
    worker["envFrom"].push_back({{"secretRef", {{"name", secret}}}});
  }
  if (const std::string secret = google_credentials_secret(spec); !secret.empty()) {
    add_google_credentials(pod_spec, worker, secret);
  }
}

void complete_pod(json& pod_spec, const api::TrainingJob& job, const Settings& settings) {
  if (needs_worker_image(job.spec)) {
    for (const std::string& secret : settings.image_pull_secrets) {
      pod_spec["imagePullSecrets"].push_back({{"name", secret}});
    }
  }
  pod_spec["restartPolicy"] = "Never";
  pod_spec["terminationGracePeriodSeconds"] = grace_seconds(job.spec);
  set_default(pod_spec, "enableServiceLinks", false);
  add_security_defaults(pod_spec, settings.user_ids);
  add_node_loss_tolerations(pod_spec);
}

void avoid_hosts(json& pod_spec, const std::vector<std::string>& host_names) {
  if (host_names.empty()) return;
  json& required = pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  json& terms = required["nodeSelectorTerms"];
  if (terms.empty()) terms.push_back(json::object());
  // A node must meet all requirements of one term, so each term gets ours. Does not use matchFields, which could name
  // the node itself: Karpenter makes no node for a pod that has them.
  for (json& term : terms) {
    term["matchExpressions"].push_back(
        {{"key", resource::host_name_label}, {"operator", "NotIn"}, {"values", host_names}});
  }
}

void add_shared_memory(json& pod_spec, json& worker) {
  constexpr std::string_view path = "/dev/shm";
  if (has_mount_at(worker, path)) return;
  pod_spec["volumes"].push_back({{"name", "trainyard-shm"}, {"emptyDir", {{"medium", "Memory"}}}});
  worker["volumeMounts"].push_back({{"name", "trainyard-shm"}, {"mountPath", path}});
}

void add_data_volume_claim(json& pod_spec, json& worker, const std::string& volume_claim) {
  if (has_mount_at(worker, contract::data_mount_path)) return;
  // The volume is read-only too, so that the kubelet does not change the owner of each file in a large data set.
  pod_spec["volumes"].push_back(
      {{"name", "trainyard-data"}, {"persistentVolumeClaim", {{"claimName", volume_claim}, {"readOnly", true}}}});
  worker["volumeMounts"].push_back(
      {{"name", "trainyard-data"}, {"mountPath", contract::data_mount_path}, {"readOnly", true}});
}

void add_google_credentials(json& pod_spec, json& worker, const std::string& secret) {
  if (has_mount_at(worker, contract::google_credentials_folder)) return;
  pod_spec["volumes"].push_back({{"name", "trainyard-credentials"}, {"secret", {{"secretName", secret}}}});
  worker["volumeMounts"].push_back(
      {{"name", "trainyard-credentials"}, {"mountPath", contract::google_credentials_folder}, {"readOnly", true}});
}

}  // namespace trainyard::manifest
