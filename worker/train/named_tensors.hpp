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

}  // namespace trainyard::train
