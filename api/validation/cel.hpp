#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::api::cel {

/// Whether `self` keeps the rule, as the API server would find; `old_self` (nullptr: there is none) is the stored
/// value. CEL in the extent of cel_syntax.hpp with the functions size, string, duration, startsWith, endsWith, matches
/// and substring, and its way with errors: `error || true` is true. ErrorKind::invalid: the rule has no value (a field
/// is missing, a type is wrong) or is not such CEL.
[[nodiscard]] Result<bool> keeps_rule(std::string_view rule, const nlohmann::json& self,
                                      const nlohmann::json* old_self);

/// Whether the rule is about a change, and so does not apply to new objects.
[[nodiscard]] bool is_about_changes(std::string_view rule);

}  // namespace trainyard::api::cel
