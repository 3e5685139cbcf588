#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace YAML {
class Node;
}

namespace trainyard::api {

/// The documents of a YAML or JSON text as the values that kubectl sends for them; empty documents are left out.
///
/// Plain scalars are typed by kubectl's rules (yes and on are true, 010 is 8, ~ is null, 2026-01-01 is a string).
/// Quoted scalars stay strings, and merge keys (<<) are merged.
///
/// ErrorKind::invalid with line and column: malformed YAML, a duplicate key (which kubectl silently accepts), text that
/// is not UTF-8, values nested deeper than 100 levels.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

/// The JSON value of one YAML node, by the rules of parse_yaml().
[[nodiscard]] Result<nlohmann::json> json_of(const YAML::Node& node);

}  // namespace trainyard::api
