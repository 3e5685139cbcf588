#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/validation/violation.hpp"

namespace trainyard::cli {

/// Fields of a job's spec.template that Kubernetes does not know and that differ by at most two letters from one that
/// it does, such as `resource` of a container. The API server takes them with the job, and refuses them with its pods.
/// A field that resembles none may be of a newer Kubernetes, and is left to it.
[[nodiscard]] std::vector<api::Violation> mistyped_template_fields(const nlohmann::json& job);

}  // namespace trainyard::cli
