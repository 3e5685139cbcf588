#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::cli {

/// `value` as YAML in the block style that kubectl prints, ending in a line end. Reading it gives back an equal value:
/// text that would be read as something else is quoted.
[[nodiscard]] std::string to_yaml(const nlohmann::json& value);

}  // namespace trainyard::cli
