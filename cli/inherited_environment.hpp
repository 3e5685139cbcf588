#pragma once

#include <optional>
#include <string>

#include "local/container.hpp"

namespace trainyard::cli {

/// This process's environment for its ranks, without the variables about ranks that an outer launcher may have set.
[[nodiscard]] local::Variables inherited_environment();

/// The environment variable `name` of this process; empty: it is not set.
[[nodiscard]] std::optional<std::string> environment_of(const char* name);

}  // namespace trainyard::cli
