#include "operator/plan/security.hpp"

#include <nlohmann/json.hpp>

namespace trainyard::plan {
namespace {

using nlohmann::json;

/// The user that distroless images call "nonroot". An image that would run as root runs as this one instead of being
/// refused.
constexpr int nonroot_id = 65532;

bool wants_root(const json& security_context) {
  return security_context.value("runAsUser", json{}) == 0 || security_context.value("runAsNonRoot", json{}) == false;
}

}  // namespace

void add_security_defaults(json& pod_spec) {
  if (!pod_spec.contains("automountServiceAccountToken") && !pod_spec.contains("serviceAccountName")) {
    pod_spec["automountServiceAccountToken"] = false;
  }
  if (!pod_spec.contains("securityContext")) {
    // fsGroup: volumes are the group's, so that a claim given for checkpoints can be written.
    pod_spec["securityContext"] = {{"runAsNonRoot", true},
                                   {"runAsUser", nonroot_id},
                                   {"runAsGroup", nonroot_id},
                                   {"fsGroup", nonroot_id},
                                   {"fsGroupChangePolicy", "OnRootMismatch"},
                                   {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  } else if (wants_root(pod_spec.at("securityContext"))) {
    return;  // Root without capabilities would be no root.
  }
  for (const char* list : {"containers", "initContainers"}) {
    if (!pod_spec.contains(list)) continue;
    for (json& container : pod_spec.at(list)) {
      if (container.contains("securityContext")) continue;
      container["securityContext"] = {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}};
    }
  }
}

}  // namespace trainyard::plan
