#pragma once

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"

namespace trainyard::train {

/// invalid: a data set has more classes than the model tells apart. Nothing is checked where one of them does not say.
[[nodiscard]] Result<void> check_classes(const Module& module, const Datasets& datasets);

}  // namespace trainyard::train
