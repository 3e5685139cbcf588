#pragma once

#include <string_view>

#include "operator/kube/api.hpp"

namespace trainyard::kube {

/// The JSON of a reply or an event, without managedFields: nothing reads these, and they would be half of the memory
/// that a list takes. Discarded (is_discarded()) where it is no JSON.
[[nodiscard]] json parse_object(std::string_view text);

}  // namespace trainyard::kube
