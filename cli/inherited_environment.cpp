#include "cli/inherited_environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace trainyard::cli {

local::Variables inherited_environment() {
  // The pod's own variables replace inherited ones, but a program would also read a launcher's variable that no pod
  // sets.
  local::Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.starts_with("TORCHELASTIC_") || name.starts_with("PET_") || name.starts_with("TRAINYARD_")) {
      // Users may set the deadlines and the rank program.
      if (name != "TRAINYARD_RANK_PROGRAM" && !name.ends_with("_SECONDS")) continue;
    }
    variables.emplace(name, text.substr(equals + 1));
  }
  for (const auto* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                           "NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"})
    variables.erase(name);
  return variables;
}

std::optional<std::string> environment_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>{value};
}

}  // namespace trainyard::cli
