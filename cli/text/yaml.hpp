#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainyard::cli {

/// `value` as YAML in the block style of kubectl, with a line end. Text that a reader could take for another type is
/// quoted.
[[nodiscard]] std::string to_yaml(const nlohmann::json& value);

}  // namespace trainyard::cli
