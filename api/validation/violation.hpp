#pragma once

#include <compare>
#include <string>

namespace trainyard::api {

/// One thing that is wrong with an object.
struct Violation {
  std::string field;     ///< "spec.training.batchSize"; for a list's item "spec.template.spec.containers[1].name".
  std::string sentence;  ///< "must be at least 1, got 0"
  auto operator<=>(const Violation&) const = default;
};

/// "spec.training.batchSize: must be at least 1, got 0"
[[nodiscard]] std::string to_string(const Violation& violation);

}  // namespace trainyard::api
