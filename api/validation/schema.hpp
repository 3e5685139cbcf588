#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/validation/violation.hpp"

/// What the API server does with a CRD's structural schema, but for CEL rules.
namespace trainyard::api {

/// `value` with the defaults of `schema` filled in; a null where none is allowed reads as absent.
[[nodiscard]] nlohmann::json with_schema_defaults(const nlohmann::json& schema, nlohmann::json value);

/// What in `value`, which has its defaults, does not fit `schema`: types, required and unknown fields, enums, ranges,
/// lengths, keys of lists that come twice. `path` is put before each field.
[[nodiscard]] std::vector<Violation> check_schema(const nlohmann::json& schema, const nlohmann::json& value,
                                                  const std::string& path);

/// True when CEL rules about `value` can be evaluated: types and enums fit `schema`, and no required field is missing.
/// Unknown fields, numbers out of range and lengths do not matter.
[[nodiscard]] bool is_well_formed(const nlohmann::json& schema, const nlohmann::json& value);

/// Calls `visit` for each value that has a schema, parents first, with its path.
void visit_values(const nlohmann::json& schema, const nlohmann::json& value, const std::string& path,
                  const std::function<void(const nlohmann::json& schema, const nlohmann::json& value,
                                           const std::string& path)>& visit);

/// The message for a `field` that is none of `properties`: which one was probably meant, or which there are.
[[nodiscard]] std::string unknown_field(const std::string& field, const nlohmann::json& properties);

/// "spec" and "training": "spec.training"; without a parent the name alone.
[[nodiscard]] std::string join_path(std::string_view parent, std::string_view name);

}  // namespace trainyard::api
