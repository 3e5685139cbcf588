#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard::train {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// The parameters or buffers of a module and its submodules, in order of registration, each once. Names are paths
/// ("layer1.0.weight").
[[nodiscard]] NamedTensors named_parameters(const torch::nn::Module& module);
[[nodiscard]] NamedTensors named_buffers(const torch::nn::Module& module);

/// The further names of tensors that have several names, such as tied weights.
[[nodiscard]] std::vector<std::string> further_names(const torch::nn::Module& module);

/// `tensors` in groups of one dtype, each in its order: a foreach kernel is fast for tensors of one dtype only.
[[nodiscard]] std::vector<std::vector<torch::Tensor>> by_type(const std::vector<torch::Tensor>& tensors);

/// The 2-norm of each tensor of a group of one type. Those of 16-bit types are summed up and returned as float32: in
/// their own type the sum would overflow, and depend on the number of threads.
[[nodiscard]] std::vector<torch::Tensor> norms_of(const std::vector<torch::Tensor>& group);

}  // namespace trainyard::train
