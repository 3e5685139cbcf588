#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/validation/violation.hpp"

namespace trainyard::api {

/// The violations for which the API server refuses a user's metadata: unknown fields, wrong types, a missing name,
/// malformed labels. Limits on names that a kind sets for itself are not checked here.
[[nodiscard]] std::vector<Violation> check_object_meta(const nlohmann::json& metadata);

}  // namespace trainyard::api
