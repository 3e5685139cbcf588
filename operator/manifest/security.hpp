#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// Makes `pod_spec` pass Pod Security's level "restricted": no root, no capabilities, no service account's token.
/// Containers whose user is chosen here, or by the cluster, get a HOME that the user may write to.
///
/// Keeps what the template sets for the pod or a container: an image made for root runs as root if its container's
/// securityContext says `runAsUser: 0` or `runAsNonRoot: false`.
void add_security_defaults(nlohmann::json& pod_spec, UserIds user_ids);

}  // namespace trainyard::manifest
