#include "operator/plan/node_affinity.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::plan {
namespace {

using nlohmann::json;

constexpr int seconds_on_lost_node = 30;

}  // namespace

void avoid_nodes(json& pod_spec, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return;
  json& required = pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  json& terms = required["nodeSelectorTerms"];
  if (terms.empty()) terms.push_back(json::object());
  // One of the terms must hold, all of its requirements: so each term gets ours. matchFields is exact where the label
  // kubernetes.io/hostname need not be; it takes one value a requirement.
  for (json& term : terms) {
    for (const std::string& node : nodes) {
      term["matchFields"].push_back({{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", {node}}});
    }
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

}  // namespace trainyard::plan
