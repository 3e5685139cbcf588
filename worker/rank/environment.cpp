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

}  // namespace trainyard::rank
