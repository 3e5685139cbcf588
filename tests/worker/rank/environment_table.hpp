#pragma once

#include <map>
#include <string>
#include <utility>

#include "worker/rank/environment.hpp"

namespace trainyard::rank {

/// An environment of just these variables.
inline Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string{name});
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

}  // namespace trainyard::rank
