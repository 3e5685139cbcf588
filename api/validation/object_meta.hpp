#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/validation/violation.hpp"

namespace trainyard::api {

/// What the API server refuses in the metadata that a user wrote: fields it does not know, wrong types, a missing name,
/// labels of a form that labels cannot have. What it accepts of names and lets a kind narrow further is not judged
/// here.
[[nodiscard]] std::vector<Violation> check_object_meta(const nlohmann::json& metadata);

}  // namespace trainyard::api
