#pragma once

#include <optional>
#include <string>

#include "local/container.hpp"

namespace trainyard::cli {

/// The environment of this process that its ranks begin with: without what an outer launcher may have told it about
/// ranks.
[[nodiscard]] local::Variables inherited_environment();

/// A variable of this process.
[[nodiscard]] std::optional<std::string> environment_of(const char* name);

}  // namespace trainyard::cli
