#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

namespace trainyard::storage {

/// The value of an environment variable; nothing when it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// This process's.
[[nodiscard]] Environment process_environment();

/// The first of `names` that is set and not empty; empty when none is.
[[nodiscard]] std::string first_of(const Environment& environment, std::initializer_list<const char*> names);

}  // namespace trainyard::storage
