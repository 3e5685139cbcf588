#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/resource/metadata.hpp"

namespace trainyard::resource {

/// The part of a Node that planning reads.
struct Node {
  Metadata metadata;
  bool is_ready = false;
  bool is_unreachable =
      false;  ///< Ready is Unknown: its kubelet has been silent for the API server's grace period (40-50 s).
  bool operator==(const Node&) const = default;
};

[[nodiscard]] Result<Node> parse_node(const nlohmann::json& object);

}  // namespace trainyard::resource
