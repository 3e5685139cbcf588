#pragma once

#include <string>
#include <vector>

#include "operator/plan/plan.hpp"

namespace trainyard::builders {

/// "create pod 0", "delete smoke-c0de-1-1", "add finalizer", ...: the plan's actions, in order.
[[nodiscard]] std::vector<std::string> words_of(const std::vector<plan::Action>& actions);

}  // namespace trainyard::builders
