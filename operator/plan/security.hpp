#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trainyard::plan {

/// Makes `pod_spec` pass Pod Security's level "restricted" where its user has said nothing: neither root, nor
/// capabilities, nor a service account's token. What the user has set stands as it is.
void add_security_defaults(nlohmann::json& pod_spec);

}  // namespace trainyard::plan
