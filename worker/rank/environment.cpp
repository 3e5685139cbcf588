#include "worker/rank/environment.hpp"

#include <cstdlib>

namespace trainyard::rank {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string{name}.c_str());  // NOLINT(concurrency-mt-unsafe): see the header.
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::optional<std::string> exact_variable(std::string_view name) {
  const char* value = std::getenv(std::string{name}.c_str());  // NOLINT(concurrency-mt-unsafe): see the header.
  return value == nullptr ? std::nullopt : std::optional<std::string>{value};
}

}  // namespace trainyard::rank
