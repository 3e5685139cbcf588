#pragma once

#include <nlohmann/json_fwd.hpp>

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// The API server's use of a CRD's structural schema, apart from CEL rules.
namespace trainyard::api {

/// One thing that is wrong with an object.
struct Violation {
  std::string field;     ///< "spec.training.batchSize"; for a list's item "spec.template.spec.containers[1].name".
  std::string sentence;  ///< "must be at least 1, got 0"
  auto operator<=>(const Violation&) const = default;
};

/// "spec.training.batchSize: must be at least 1, got 0"
[[nodiscard]] std::string to_string(const Violation& violation);

/// `value` with the defaults of `schema` filled in. A null where the schema allows none is treated as absent.
[[nodiscard]] nlohmann::json with_schema_defaults(const nlohmann::json& schema, nlohmann::json value);

/// The violations of `schema` in `value`, whose defaults are filled in: types, required and unknown fields, enums,
/// ranges, lengths, duplicate keys of lists. `path` is put before each field.
[[nodiscard]] std::vector<Violation> check_schema(const nlohmann::json& schema, const nlohmann::json& value,
                                                  const std::string& path);

/// True when CEL rules about `value` can be evaluated: types and enums fit `schema`, and no required field is missing.
/// Unknown fields, numbers out of range and lengths do not matter.
[[nodiscard]] bool is_well_formed(const nlohmann::json& schema, const nlohmann::json& value);

/// Calls `visit` for each value that has a schema, with its path; parents come before their children.
void visit_values(const nlohmann::json& schema, const nlohmann::json& value, const std::string& path,
                  const std::function<void(const nlohmann::json& schema, const nlohmann::json& value,
                                           const std::string& path)>& visit);

/// The message for a `field` that is not in `properties`: names the property that was probably meant, or lists them
/// all.
[[nodiscard]] std::string unknown_field(const std::string& field, const nlohmann::json& properties);

/// "spec.training" for "spec" and "training"; `name` alone if `parent` is empty.
[[nodiscard]] std::string join_path(std::string_view parent, std::string_view name);

}  // namespace trainyard::api
