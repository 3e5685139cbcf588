#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace trainyard::models {

/// Gives every parameter of `module` values of a formula, so that a program in Python can make the same ones: value k
/// of parameter i is sin(0.37 k + i), scaled by sqrt(2 / fan-in) for matrices and kernels and by a tenth for vectors;
/// to a norm's weights one is added. A shared parameter counts once.
inline void fill_parameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::set<const void*> known;
  std::int64_t number = 0;
  for (const auto& item : module.named_parameters()) {
    torch::Tensor parameter = item.value();
    if (!known.insert(parameter.unsafeGetTensorImpl()).second) continue;
    torch::Tensor values = torch::arange(parameter.numel(), torch::kDouble).mul(0.37).add(double(number++)).sin();
    if (parameter.dim() >= 2) {
      values *= std::sqrt(2.0 / static_cast<double>(parameter[0].numel()));
    } else {
      values *= 0.1;
      const std::string& name = item.key();
      const bool is_norm = name.find("bn") != std::string::npos || name.find("downsample.1") != std::string::npos ||
                           name.find("ln_") != std::string::npos;
      if (is_norm && name.ends_with("weight")) values += 1.0;
    }
    parameter.copy_(values.view_as(parameter));
  }
}

inline std::int64_t count_parameters(const torch::nn::Module& module) {
  std::set<const void*> known;
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) {
    if (known.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

/// True when `module` has a parameter of that name and shape.
inline bool has_parameter(const torch::nn::Module& module, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
  const auto parameters = module.named_parameters();
  const torch::Tensor* found = parameters.find(name);
  return found != nullptr && found->sizes() == shape;
}

}  // namespace trainyard::models
