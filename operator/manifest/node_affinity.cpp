#include "operator/manifest/node_affinity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/resource/node.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

constexpr int seconds_on_lost_node = 30;

}  // namespace

void avoid_hosts(json& pod_spec, const std::vector<std::string>& host_names) {
  if (host_names.empty()) return;
  json& required = pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  json& terms = required["nodeSelectorTerms"];
  if (terms.empty()) terms.push_back(json::object());
  // A node must meet all requirements of one of the terms, so each term gets ours. Not by matchFields, which could name
  // the node itself: Karpenter makes no node for a pod that has them.
  for (json& term : terms) {
    term["matchExpressions"].push_back(
        {{"key", resource::host_name_label}, {"operator", "NotIn"}, {"values", host_names}});
  }
}

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

}  // namespace trainyard::manifest
