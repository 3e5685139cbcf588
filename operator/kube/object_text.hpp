#pragma once

#include <string_view>

#include "operator/kube/api.hpp"

namespace trainyard::kube {

/// Parses the JSON of a reply or an event. Drops managedFields, which nothing reads and which can be half of a list's
/// memory. If `text` is not JSON, the result's is_discarded() is true.
[[nodiscard]] json parse_object(std::string_view text);

}  // namespace trainyard::kube
