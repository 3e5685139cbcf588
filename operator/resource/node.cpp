#include "operator/resource/node.hpp"

#include <nlohmann/json.hpp>

#include "common/try.hpp"

namespace trainyard::resource {

Result<Node> parse_node(const nlohmann::json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  Node node{.metadata = std::move(metadata)};
  const auto host_name = node.metadata.labels.find(std::string{host_name_label});
  if (host_name != node.metadata.labels.end()) node.host_name = host_name->second;
  // Drops the other labels and annotations: nothing reads them, and a node with GPUs may have a hundred.
  node.metadata.labels.clear();
  node.metadata.annotations.clear();
  const auto status = object.find("status");
  if (status == object.end() || !status->is_object()) return node;
  const auto conditions = status->find("conditions");
  if (conditions == status->end() || !conditions->is_array()) return node;
  for (const auto& condition : *conditions) {
    if (!condition.is_object() || condition.value("type", "") != "Ready") continue;
    node.is_ready = condition.value("status", "") == "True";
    node.is_unreachable = condition.value("status", "") == "Unknown";
  }
  return node;
}

}  // namespace trainyard::resource
