#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>
#include <vector>

#include "api/validation/schema.hpp"

/// Validates a TrainingJob without an API server, by the CRD's schema and CEL rules. The messages of rules are the
/// server's.
namespace trainyard::api {

/// crds/trainingjobs.trainyard.dev.yaml as it was when the program was built, as JSON.
[[nodiscard]] std::string_view training_job_crd();

/// The violations for which the API server refuses a user's metadata: unknown fields, wrong types, a missing name,
/// malformed labels. Limits on names that a kind sets for itself are not checked here.
[[nodiscard]] std::vector<Violation> check_object_meta(const nlohmann::json& metadata);

/// `object` with the schema's defaults filled in, as the API server stores it. Changes only `spec`.
[[nodiscard]] nlohmann::json with_defaults(nlohmann::json object);

/// The violations of a new TrainingJob; empty if the API server would accept it. Defaults are filled in first, as the
/// server does. Unknown fields are violations, as under `kubectl apply`'s strict field validation.
[[nodiscard]] std::vector<Violation> validate_training_job(const nlohmann::json& object);

/// The violations of `after` as an update of the stored `before`: those of validate_training_job(), and each change of
/// an immutable field.
[[nodiscard]] std::vector<Violation> validate_update(const nlohmann::json& before, const nlohmann::json& after);

/// The violations of a spec of which only the fields `training` and `checkpoint` are known, as on a rank that no API
/// server has started. Rules that read other fields too, such as the template's volumes, are not judged.
[[nodiscard]] std::vector<Violation> validate_training(const nlohmann::json& spec);

/// The violations of the CRD's schema in a TrainingJob's status.
[[nodiscard]] std::vector<Violation> validate_status(const nlohmann::json& status);

}  // namespace trainyard::api
