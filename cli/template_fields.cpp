#include "cli/template_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/nearest_word.hpp"

namespace trainyard::cli {
namespace {

using api::Violation;
using nlohmann::json;
using Names = std::vector<std::string>;

constexpr std::size_t changes_max = 2;

// The fields of Kubernetes 1.36.
const Names pod_fields{"activeDeadlineSeconds",
                       "affinity",
                       "automountServiceAccountToken",
                       "containers",
                       "dnsConfig",
                       "dnsPolicy",
                       "enableServiceLinks",
                       "ephemeralContainers",
                       "hostAliases",
                       "hostIPC",
                       "hostNetwork",
                       "hostPID",
                       "hostUsers",
                       "hostname",
                       "hostnameOverride",
                       "imagePullSecrets",
                       "initContainers",
                       "nodeName",
                       "nodeSelector",
                       "os",
                       "overhead",
                       "preemptionPolicy",
                       "priority",
                       "priorityClassName",
                       "readinessGates",
                       "resourceClaims",
                       "resources",
                       "restartPolicy",
                       "runtimeClassName",
                       "schedulerName",
                       "schedulingGates",
                       "schedulingGroup",
                       "securityContext",
                       "serviceAccount",
                       "serviceAccountName",
                       "setHostnameAsFQDN",
                       "shareProcessNamespace",
                       "subdomain",
                       "terminationGracePeriodSeconds",
                       "tolerations",
                       "topologySpreadConstraints",
                       "volumes"};
const Names container_fields{"args",
                             "command",
                             "env",
                             "envFrom",
                             "image",
                             "imagePullPolicy",
                             "lifecycle",
                             "livenessProbe",
                             "name",
                             "ports",
                             "readinessProbe",
                             "resizePolicy",
                             "resources",
                             "restartPolicy",
                             "restartPolicyRules",
                             "securityContext",
                             "startupProbe",
                             "stdin",
                             "stdinOnce",
                             "terminationMessagePath",
                             "terminationMessagePolicy",
                             "tty",
                             "volumeDevices",
                             "volumeMounts",
                             "workingDir"};
const Names resources_fields{"claims", "limits", "requests"};
const Names variable_fields{"name", "value", "valueFrom"};
const Names variables_fields{"configMapRef", "prefix", "secretRef"};
const Names mount_fields{"mountPath",         "mountPropagation", "name",       "readOnly",
                         "recursiveReadOnly", "subPath",          "subPathExpr"};

void check_fields(const json& object, const Names& known, const std::string& path, std::vector<Violation>& found) {
  if (!object.is_object()) return;
  for (const auto& [name, unused] : object.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string meant = nearest_word(name, known, changes_max);
    if (!meant.empty())
      found.push_back({fmt::format("{}.{}", path, name), fmt::format("unknown field; did you mean {}?", meant)});
  }
}

/// Calls `visit` for each item of `object[field]`, with the item's path.
template <typename Visit>
void for_each_item(const json& object, const char* field, const std::string& path, const Visit& visit) {
  if (!object.is_object() || !object.contains(field) || !object.at(field).is_array()) return;
  std::size_t index = 0;
  for (const json& item : object.at(field)) visit(item, fmt::format("{}.{}[{}]", path, field, index++));
}

void check_container(const json& container, const std::string& path, std::vector<Violation>& found) {
  check_fields(container, container_fields, path, found);
  if (container.is_object() && container.contains("resources"))
    check_fields(container.at("resources"), resources_fields, path + ".resources", found);
  const auto check_items = [&](const char* field, const Names& known) {
    for_each_item(container, field, path,
                  [&](const json& item, const std::string& at) { check_fields(item, known, at, found); });
  };
  check_items("env", variable_fields);
  check_items("envFrom", variables_fields);
  check_items("volumeMounts", mount_fields);
}

}  // namespace

std::vector<Violation> mistyped_template_fields(const json& job) {
  std::vector<Violation> found;
  const auto at = "/spec/template/spec"_json_pointer;
  if (!job.is_object() || !job.contains(at)) return found;
  const json& pod = job.at(at);
  const std::string path = "spec.template.spec";
  check_fields(pod, pod_fields, path, found);
  for (const char* list : {"initContainers", "containers"}) {
    for_each_item(pod, list, path, [&](const json& container, const std::string& container_path) {
      check_container(container, container_path, found);
    });
  }
  return found;
}

}  // namespace trainyard::cli
