#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// Makes `pod_spec` pass Pod Security's level "restricted" where its user has said nothing: neither root, nor
/// capabilities, nor a service account's token. What the user has set is kept, for the pod or for a container:
/// an image made for root runs as root where its container's securityContext says `runAsUser: 0` or
/// `runAsNonRoot: false`. Containers whose user is chosen here, or by the cluster, get a HOME that it may write to.
void add_security_defaults(nlohmann::json& pod_spec, UserIds user_ids);

}  // namespace trainyard::manifest
