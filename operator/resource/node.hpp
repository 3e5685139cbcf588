#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "api/metadata.hpp"

namespace trainyard::resource {

inline constexpr std::string_view host_name_label = "kubernetes.io/hostname";

/// The part of a Node that planning reads.
struct Node {
  api::Metadata metadata;  ///< Without labels and annotations.
  std::string host_name;   ///< Value of host_name_label; empty if the node has none.
  bool is_ready = false;
  bool is_unreachable =
      false;  ///< Ready is Unknown: its kubelet has been silent for the API server's grace period (40-50 s).
  bool operator==(const Node&) const = default;
};

[[nodiscard]] Result<Node> parse_node(const nlohmann::json& object);

}  // namespace trainyard::resource
