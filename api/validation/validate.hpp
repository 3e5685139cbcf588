#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/validation/violation.hpp"

/// What the API server says about a TrainingJob, without an API server: the CRD's schema, and its CEL rules in the same
/// words.
namespace trainyard::api {

/// `object` with the schema's defaults filled in, as the API server stores it. Of `object` only spec is changed.
[[nodiscard]] nlohmann::json with_defaults(nlohmann::json object);

/// What is wrong with a new TrainingJob; empty: it would be accepted. Defaults are filled in first, as the API server
/// does. Fields that the schema does not know are violations, as under `kubectl apply`'s strict field validation.
[[nodiscard]] std::vector<Violation> validate_training_job(const nlohmann::json& object);

/// The violations of `after` as an update of the stored `before`: those of validate_training_job(), and each change of
/// a field that may not change.
[[nodiscard]] std::vector<Violation> validate_update(const nlohmann::json& before, const nlohmann::json& after);

/// Where a TrainingJob's status violates the CRD's schema.
[[nodiscard]] std::vector<Violation> validate_status(const nlohmann::json& status);

}  // namespace trainyard::api
