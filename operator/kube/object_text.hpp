#pragma once

#include <string_view>

#include "operator/kube/api.hpp"

namespace trainyard::kube {

/// The JSON of a reply or an event, without managedFields: nothing reads them, and they can be half of a list's memory.
/// Where `text` is no JSON, the result's is_discarded() is true.
[[nodiscard]] json parse_object(std::string_view text);

}  // namespace trainyard::kube
