#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/validation/violation.hpp"

namespace trainyard::cli {

/// Mistyped fields of a job's spec.template: unknown to Kubernetes, and at most two letters away from a known field,
/// such as `resource` in a container. The API server accepts them in the job, and refuses them in its pods. Other
/// unknown fields may belong to a newer Kubernetes, and are accepted.
[[nodiscard]] std::vector<api::Violation> mistyped_template_fields(const nlohmann::json& job);

}  // namespace trainyard::cli
