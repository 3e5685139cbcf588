#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::manifest {

/// A sentence about the first field of a pod template that has a wrong type; empty if there is none. Checks only the
/// fields that the operator reads or adds to. The API server checks all others.
[[nodiscard]] std::string template_shape_fault(const nlohmann::json& pod_template);

}  // namespace trainyard::manifest
