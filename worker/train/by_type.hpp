#pragma once

#include <torch/types.h>

#include <vector>

namespace trainyard::train {

/// `tensors` in groups of one dtype, each in its order: a foreach kernel is fast for tensors of one dtype only.
[[nodiscard]] std::vector<std::vector<torch::Tensor>> by_type(const std::vector<torch::Tensor>& tensors);

}  // namespace trainyard::train
