#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::api::cel {

/// True when `self` satisfies the rule, as the API server would decide. `old_self` is the stored value; nullptr if
/// there is none.
///
/// Supports the CEL of cel_syntax.hpp with the functions size, string, duration, startsWith, endsWith, matches and
/// substring. As in CEL, `error || true` is true. ErrorKind::invalid: the rule has no value (a missing field, a wrong
/// type), or it uses other CEL.
[[nodiscard]] Result<bool> keeps_rule(std::string_view rule, const nlohmann::json& self,
                                      const nlohmann::json* old_self);

/// The names of the fields of `self` that the rule reads, as its text has them: `self.replicas`.
[[nodiscard]] std::set<std::string> fields_of_self(std::string_view rule);

/// True when the rule compares with the stored value, and so does not apply to new objects.
[[nodiscard]] bool is_about_changes(std::string_view rule);

}  // namespace trainyard::api::cel
