#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "storage/environment.hpp"

namespace trainyard::storage {

/// An environment of these variables, and of no others.
inline Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  };
}

}  // namespace trainyard::storage
