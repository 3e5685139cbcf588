#include "storage/environment.hpp"

#include <cstdlib>

namespace trainyard::storage {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  };
}

std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = environment(name); value && !value->empty()) return *value;
  }
  return {};
}

}  // namespace trainyard::storage
