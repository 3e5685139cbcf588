#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard::manifest {

/// Keeps the pod off the nodes whose label kubernetes.io/hostname is one of `host_names`, in addition to whatever
/// affinity the user has asked for.
void avoid_hosts(nlohmann::json& pod_spec, const std::vector<std::string>& host_names);

/// A pod leaves a node that has gone silent after 30 s rather than Kubernetes' 300 s, unless the template says
/// otherwise.
void add_node_loss_tolerations(nlohmann::json& pod_spec);

}  // namespace trainyard::manifest
