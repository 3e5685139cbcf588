#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

namespace trainyard::storage {

/// Returns the value of the environment variable `name`; empty when it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// The environment of this process.
[[nodiscard]] Environment process_environment();

/// The first of `names` that is set and not empty; empty when none is.
[[nodiscard]] std::string first_of(const Environment& environment, std::initializer_list<const char*> names);

}  // namespace trainyard::storage
