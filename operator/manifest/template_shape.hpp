#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::manifest {

/// Which field of a pod template has another type than the operator needs it to have, as a sentence; empty where none
/// has. Most of a template is passed on unread, and only the API server knows its types; but what we read or add to
/// must be what we take it for.
[[nodiscard]] std::string template_shape_fault(const nlohmann::json& pod_template);

}  // namespace trainyard::manifest
