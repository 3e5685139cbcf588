#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace YAML {
class Node;
}

namespace trainyard::api {

/// The documents of a YAML (or JSON) text as the values that kubectl sends for them: plain scalars are typed by its
/// rules (yes and on are true, 010 is 8, ~ is null, 2026-01-01 is a string), quoted ones stay strings, merge keys (<<)
/// are merged. Empty documents are left out. ErrorKind::invalid says line and column; so does a key that is given
/// twice, which kubectl would silently pass over, text that is not UTF-8, and what is nested deeper than 100 levels.
[[nodiscard]] Result<std::vector<nlohmann::json>> parse_yaml(std::string_view text);

/// The same for one value of a document that is read already.
[[nodiscard]] Result<nlohmann::json> json_of(const YAML::Node& node);

}  // namespace trainyard::api
