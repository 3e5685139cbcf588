#pragma once

#include <torch/types.h>

#include <vector>

namespace trainyard::train {

/// `tensors` in groups of one dtype, each in its order: a foreach kernel is fast for tensors of one dtype only.
[[nodiscard]] std::vector<std::vector<torch::Tensor>> by_type(const std::vector<torch::Tensor>& tensors);

/// The 2-norm of each tensor of a group of one type. The norms of 16-bit types are summed up and returned as float32:
/// in their own type the sum would overflow, and depend on the number of threads.
[[nodiscard]] std::vector<torch::Tensor> norms_of(const std::vector<torch::Tensor>& group);

}  // namespace trainyard::train
